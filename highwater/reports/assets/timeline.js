"use strict";

// --- what the data says. No document from here to Page

function Run(d) {
  const {rows} = d, failing = new Set(d.failing), why = new Map(d.causes.map(([number, to, text]) => [number, {to, text}]));
  const matters = n => failing.has(n) || why.has(n);
  const last = d.failing.length ? Math.max(...d.failing) : rows.length - 1;
  const story = rows.map((_, n) => n).filter(matters);
  const stateAt = n => n < 0 ? d.initial : rows[n].state;

  // [[name, note, text or elements, how it was before]] of one part: 0 is the shared one, then the clients'.
  function fields(n, part) {
    const now = stateAt(n), before = stateAt(n - 1) || now, names = part ? d.locals[part - 1][1] : d.shared;
    if (!now) return [];
    return names.map(([name, note], i) => ({name, note, now: d.parts[now[part]][i], before: d.parts[before[part]][i]}));
  }

  const changed = field => JSON.stringify(field.now) !== JSON.stringify(field.before);
  const empty = value => Array.isArray(value) ? !value.length : /^(0|False|None|\(\)|\{\}|\w+\(\))$/.test(d.texts[value]);

  // Where each row is: full rows have a text, the others are folded. A long time between two events is some room.
  // Where few mattered there is room to say why.
  const reasons = story.length > 0 && story.length <= 20;
  function layout(all, zoom, cursor) {
    const middle = [], height = [];
    let y = 10;
    rows.forEach((row, n) => {
      const passed = n ? row.t - rows[n - 1].t : 0, room = passed > 40 ? Math.min(12, 2 * Math.log2(passed / 20)) : 0;
      const h = (matters(n) && reasons ? 35 : all || matters(n) || n === cursor ? 24 : 6) * zoom;
      y += room * Math.min(1, zoom);
      middle.push(y + h / 2);
      height.push(h);
      y += h;
    });
    const at = place => {
      if (!middle.length) return 0;
      if (place < 0) return middle[0] - height[0] / 2 - 5;
      const n = Math.floor(place);
      return place === n ? middle[n] : (middle[n] + (middle[n + 1] ?? middle[n] + height[n])) / 2;
    };
    return {middle, height, at, end: y + 12};
  }

  const near = (n, by) => by > 0 ? story.find(m => m > n) : story.filter(m => m < n).pop();
  return {d, rows, failing, why, matters, last, story, fields, changed, empty, layout, near};
}

// --- the page -----------------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "line", "path", "text", "rect", "circle", "title", "tspan"]);

// el("p.soft", {title: ".."}, "text", [more, null]): what is null, false, 0 or undefined is left out.
function el(kind, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  const plain = children[0] !== null && typeof children[0] === "object" && children[0].constructor === Object;
  for (const [key, value] of Object.entries(plain ? children.shift() : {})) {
    if (key === "onclick") node.onclick = value;
    else if (value !== null && value !== false && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  if (classes.some(Boolean)) node.setAttribute("class", classes.filter(Boolean).join(" "));
  node.append(...children.flat(Infinity).filter(Boolean));
  return node;
}

const SHAPES = {  // drawn, for not every machine has a font with such signs; around 0, 0
  timeout: "M5.5 0A5.5 5.5 0 1 1 -5.5 0A5.5 5.5 0 1 1 5.5 0M0 -3.5V0H3", crash: "M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5",
  lost: "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5", refused: "M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0M-3.5 3.5L3.5 -3.5",
  told: "M0 -5.5L5.5 0L0 5.5L-5.5 0Z", expired: "M-4 -5H4L-4 5H4Z",
};

function Page(run) {
  const {d, rows} = run, $ = id => document.getElementById(id), n = d.clients.length;
  const small = rows.length <= 28;
  let cursor = run.last, zoom = 1, all = small || !run.story.length, at = null, lanes = null;

  const hue = c => `--of: var(--p${c % 8})`;
  const shortly = c => d.clients[c].replace(/^(W)riter|^(C)ollector|^(R)eader/, "$1$2$3");
  const cut = (text, room) => text.length > room ? text.slice(0, room - 1).replace(/…$/, "") + "…" : text;
  const middle = (text, room) => text.length > room ? text.slice(0, Math.ceil((room - 1) / 2)) + "…"
    + text.slice(text.length - Math.floor((room - 1) / 2)) : text;

  // A request and its response in `room` characters: the longest word of the request, its key, is shortened first.
  function fitted(ask, answer, room) {
    const left = Math.max(room - answer.length, Math.min(ask.length, room >> 1)), key = ask.split(" ").sort((x, y) => y.length - x.length)[0];
    const shorter = ask.replace(key, () => middle(key, Math.max(12, key.length - Math.max(0, ask.length - left))));
    return cut(shorter, left) + cut(answer, Math.max(6, room - Math.min(left, shorter.length)));
  }

  const short = text => text.length > 46 ? text.slice(0, 26) + " … " + text.slice(-17) : text;

  function columns() {
    const width = $("scroll").clientWidth || 960, digits = `${rows.length}${rows[rows.length - 1].t} ms`.length, clock = Math.max(92, 34 + 6.8 * digits), first = clock + 60;
    const step = Math.max(40, Math.min(84, (width * 0.56 - first) / n));
    const text = first + n * step + 20;
    return {width, clock, client: c => first + c * step, store: first + n * step, text, narrow: width - text < 300};
  }

  // --- the drawing

  function line(x1, y1, x2, y2, kind, style) {
    return el(`line.${kind}`, {x1, y1, x2, y2, style});
  }

  function arrow(x1, y1, x2, y2, kind, style) {
    const angle = Math.atan2(y2 - y1, x2 - x1), size = 6;
    const wing = by => `L${x2 - size * Math.cos(angle + by)} ${y2 - size * Math.sin(angle + by)}M${x2} ${y2}`;
    return el(`path.arc.${kind}`, {style, d: `M${x1} ${y1}L${x2} ${y2}${wing(0.45)}${wing(-0.45)}`});
  }

  function glyph(x, y, shape, kind, about) {
    return el(`path.glyph.${shape}.${kind}`, {transform: `translate(${x} ${y})`, d: SHAPES[shape]}, about && el("title", about));
  }

  function drawRequest(number) {
    const row = rows[number], x = lanes.client(row.c), y = at.middle[number], from = at.at(row.sent), style = hue(row.c);
    const dim = run.story.length && !run.matters(number) && number !== cursor ? "dimmed" : "", parts = [];
    if (row.kind === "received") {
      if (row.from !== undefined) parts.push(arrow(lanes.client(row.from), from, x, y, "", hue(row.from)));
      parts.push(el("circle", {cx: x, cy: y, r: 3, fill: `var(--p${row.c % 8})`}));
    } else if (["sent", "disk", "step", "started"].includes(row.kind)) {
      parts.push(el("circle", {cx: x, cy: y, r: row.kind === "sent" ? 2 : 4, fill: row.ok ? `var(--p${row.c % 8})` : "var(--card)",
        stroke: row.ok ? `var(--p${row.c % 8})` : "var(--bad)", "stroke-width": 1.6}));
      if (row.befell.includes("lost")) parts.push(glyph(x + 9, y, "lost", "bad", "the message is lost"));
    } else if (row.kind === "died") {
      parts.push(glyph(x, y, "crash", "bad", row.answer));
    } else if (row.kind === "applied") {
      parts.push(arrow(x, from, lanes.store - 4, y, row.late ? "late" : "", style));
      parts.push(el("circle", {cx: lanes.store, cy: y, r: row.op === "list" || row.op.startsWith("get") ? 3 : 4.5,
        fill: row.ok ? row.late ? "var(--bad)" : `var(--p${row.c % 8})` : "var(--card)", stroke: row.late ? "var(--bad)" : `var(--p${row.c % 8})`,
        "stroke-width": 1.6}));
      const lost = row.befell.includes("reply_lost"), end = lost ? lanes.store - (lanes.store - x) * 0.4 : x + 5;
      const low = y + Math.min(6, at.height[number] / 2);
      if (!row.late) parts.push(arrow(lanes.store - 5, y, end, low, "back", style));
      if (lost) parts.push(glyph(end - 6, low, "lost", "bad", "the reply is lost"));
    } else if (row.kind === "told") {
      parts.push(glyph(x, y, "told", run.failing.has(number) ? "bad" : ""));
    } else {
      const applied = rows.some(other => other !== row && other.kind === "applied" && other.sent === row.sent && other.c === row.c);
      if (!applied && row.sent < number) {
        const stub = x + (lanes.store - x) * 0.55, low = from + Math.min(10, (y - from) / 2);
        parts.push(arrow(x, from, stub, low, "back", style), glyph(stub + 7, low, "lost", "bad", row.kind === "refused" ? "refused" : "lost, or still under way"));
      }
      parts.push(glyph(x, y, SHAPES[row.kind] ? row.kind : "lost", "bad", row.answer));
    }
    return el(`g.${dim}`, parts);
  }

  function drawText(number) {
    const row = rows[number], y = at.middle[number];
    if (at.height[number] < 13) return null;
    const who = lanes.narrow ? shortly(row.c) : d.clients[row.c], model = lanes.narrow ? "" : row.model, reason = run.why.has(number) ? run.why.get(number).text : run.failing.has(number) ? d.error : "";
    const two = reason && at.height[number] >= 26;
    const room = Math.max(16, Math.floor((lanes.width - lanes.text - 7.6 * (model.length + who.length) - (model ? 30 : 14)) / (model ? 6.4 : 7)));
    const answer = row.answer ? (["applied", "disk"].includes(row.kind) ? " → " : ": ") + short(row.answer) : "";
    const base = two ? y - 7.5 : y;
    return [
      el("text.number", {x: 4, y}, `${number}`),
      el("text.time", {x: lanes.clock - 9, y, "text-anchor": "end"}, `${row.t} ms`),
      el("text", {x: lanes.text, y: base}, el("tspan.who", {style: hue(row.c)}, who + " "), row.late && el("tspan.bad.who", "zombie: "),
        fitted(row.ask, answer, room), el("title", `${row.ask} ${row.answer}`)),
      model && el("text.model", {x: lanes.width - 8, y: base, "text-anchor": "end"}, model),
      two && el("text.reason", {x: lanes.text, y: y + 8}, cut(reason, Math.floor((lanes.width - lanes.text) / 5.9))),
    ];
  }

  function draw() {
    const box = $("scroll"), top = box.scrollTop - 40, bottom = box.scrollTop + (box.clientHeight || 800) + 40, seen = [];
    const shown = (from, to) => to >= top && from <= bottom;
    rows.forEach((row, number) => {
      const y = at.middle[number], h = at.height[number];
      if (!shown(y - h, y + h)) return;
      const kind = run.failing.has(number) ? "failing" : run.why.has(number) ? "mattered" : null;
      if (kind) seen.push(el(`rect.${kind}`, {x: 0, y: y - h / 2, width: lanes.width, height: h}));
    });
    [[lanes.clock, ""], ...d.clients.map((_, c) => [lanes.client(c), hue(c)]), ...(d.store === false ? [] : [[lanes.store, ""]])].forEach(([x, style]) =>
      seen.push(line(x, Math.max(0, top), x, Math.min(at.end, bottom), "lane", style)));
    for (const [c, from, to, ms, what] of d.pauses) {
      const y1 = at.at(from), y2 = at.at(to), x = lanes.client(c), middle = Math.min(Math.max((y1 + y2) / 2, top + 60), bottom - 60);
      if (shown(y1, y2)) seen.push(line(x, y1 + 4, x, y2 - 3, what === "down" ? "pause.down" : "pause"),
        y2 - y1 > 26 && el("text.length", {x: c === n - 1 ? x - 8 : x + 8, y: middle, "text-anchor": c === n - 1 ? "end" : null},
          `${what === "down" ? "down" : "stalls"} ${ms} ms`));
    }
    rows.forEach((row, number) => {
      const y = at.middle[number], h = at.height[number];
      if (shown(y - h, y + h)) {
        seen.push(el("circle", {cx: lanes.clock, cy: y, r: 2, fill: "var(--soft)"}), row.clock && glyph(lanes.clock, y, "expired", "", "a checkpoint expires"));
        seen.push(el(`g.${run.failing.has(number) ? "fails" : ""}`, drawText(number)));
      }
      if (shown(Math.min(at.at(row.sent), y), y + h)) seen.push(drawRequest(number));
    });
    seen.push(el("rect.here", {x: 1, y: at.middle[cursor] - at.height[cursor] / 2, width: lanes.width - 2, height: at.height[cursor], rx: 3}));
    $("drawing").replaceChildren(...seen.filter(Boolean));
  }

  function place() {
    lanes = columns();
    at = run.layout(all, zoom, cursor);
    $("drawing").setAttribute("height", at.end);
    $("lanes").replaceChildren(...[el("span.soft", {style: `left: ${lanes.clock - 38}px`}, "clock"),
      ...d.clients.map((name, c) => el("span.lane", {style: `left: ${lanes.client(c)}px; color: var(--p${c % 8})`, title: name},
        lanes.client(1) - lanes.client(0) < 80 ? shortly(c) : name)),
      d.store !== false && el("span.lane", {style: `left: ${lanes.store}px`}, "store"),
      el("span.soft", {style: `left: ${lanes.text + 18}px`}, "request → reply"),
      !lanes.narrow && el("span.soft", {style: "right: 20px"}, "in the model")].filter(Boolean));
  }

  // --- the side: the event, and the state of the model after it

  const text = value => Array.isArray(value) ? value.map(one => d.texts[one]).join(", ") : d.texts[value];

  function value({before, now}) {
    if (!Array.isArray(now)) return before === now ? text(now) : [el("del", text(before)), " → ", el("ins", text(now))];
    const left = Array.isArray(before) ? before.filter(one => !now.includes(one)) : [];
    const many = now.length > 40 ? now.filter(one => !before.includes(one)).concat(now.slice(-30)) : now;
    return [...left.map(one => el("span.chip.gone", el("del", d.texts[one]))), many.length < now.length && "… ",
      ...[...new Set(many)].map(one => el(`span.chip.${before.includes(one) ? "" : "new"}`, d.texts[one]))];
  }

  function part(number, which) {
    const fields = run.fields(number, which), kind = field => run.changed(field) ? "changed" : run.empty(field.now) ? "empty" : "";
    return fields.length ? el("dl", fields.map(field => el(`div.row.${kind(field)}`, el("dt", {title: field.note || null}, field.name),
      el("dd", Array.isArray(field.now) && kind(field) === "empty" ? "none" : value(field))))) : el("p.soft", "nothing");
  }

  function drawSide() {
    const row = rows[cursor], fails = run.failing.has(cursor), cause = run.why.get(cursor);
    const order = [...d.locals.keys()].sort((x, y) => (d.locals[y][0] === d.clients[row.c]) - (d.locals[x][0] === d.clients[row.c]));
    const stateless = !d.shared.length && d.locals.every(([, names]) => !names.length);
    $("side").replaceChildren(
      el(`div.card.event.${fails ? "fails" : ""}`, {style: hue(row.c)},
        el("h2", `Event ${cursor} of ${rows.length - 1} · ${row.t} ms`),
        el("p.ask", `${d.clients[row.c]}: ${row.ask}`),
        row.answer && el("p", row.kind === "applied" ? `the store answers: ${row.answer}` : row.answer),
        row.late && el("p.bad", "A zombie request: its client stopped waiting for it long before."),
        row.befell.length && el("p.soft", `faults of this request: ${row.befell.join(", ").replaceAll("_", " ")}`),
        el("p.soft", row.model ? `in the model: ${row.model}` : row.state ? "in the model: no step of its own" : ""),
        cause && el("p.why", `Why it matters: ${cause.text}.`),
        fails && el("div.why", el("b", "Here it fails. "), d.error, d.why && el("pre", d.why)),
        row.body && el("details", el("summary", "content"), el("pre", row.body))),
      stateless ? el("div.card", el("p.soft", "The judge of this protocol keeps facts of its own, and no state of a model."))
        : row.state ? el("div.card", el("h2", "The model's state after it"), el("h3", "Shared"), part(cursor, 0))
        : el("div.card", el("h2", "The model's state before it"), el("p.soft", d.failing.includes(cursor)
          ? "The model cannot follow. Marked is what the event before changed." : "The model cannot follow this far."), part(before(), 0)),
      ...(stateless ? [] : order).map(p => el("div.card.part", {style: hue(d.clients.indexOf(d.locals[p][0]))},
        el("h3", el("span.dot"), d.locals[p][0]), part(row.state ? cursor : before(), p + 1))));
  }

  const before = () => {
    let number = cursor;
    while (number >= 0 && !rows[number].state) number--;
    return number;
  };

  // --- the cursor, zoom and keys

  function go(number, scroll = true) {
    if (number === undefined) return;
    cursor = Math.max(0, Math.min(rows.length - 1, number));
    try { window.history.replaceState(null, "", `#${cursor}`); } catch { /* there is none, or the page is within another */ }
    place();
    const box = $("scroll"), y = at.middle[cursor], high = box.clientHeight || 0;
    if (scroll && (y < box.scrollTop + 60 || y > box.scrollTop + high - 40)) box.scrollTop = Math.max(0, y - high * (number >= run.last ? 0.9 : 0.5));
    draw(); drawSide(); drawBar();
  }

  function zoomed(by) {
    const box = $("scroll"), high = at.middle[cursor] - box.scrollTop;
    zoom = by ? Math.max(0.15, Math.min(4, zoom * by)) : 1;
    place();
    box.scrollTop = at.middle[cursor] - high;
    draw(); drawBar();
  }

  function folded() {
    all = !all;
    go(cursor);
  }

  function drawBar() {
    const jump = (words, to, title) => el("button", {onclick: () => go(to), title, disabled: to === undefined || to === cursor}, words);
    $("bar").replaceChildren(...[
      el("div.go", jump("⇤", 0, "the first event (Home)"), jump("▲", Math.max(0, cursor - 1), "the event before (↑)"),
        jump("▼", Math.min(rows.length - 1, cursor + 1), "the next event (↓)"), jump("⇥", rows.length - 1, "the last event (End)")),
      d.failing.length > 0 && el("div.go", jump("◂ mattered", run.near(cursor, -1), "the event before that mattered (←)"),
        jump("mattered ▸", run.near(cursor, 1), "the next event that mattered (→)"), jump("✗ failing", run.last, "where it fails (f)")),
      el("div.go", el("button", {onclick: () => zoomed(1.25), title: "larger (+)"}, "+"),
        el("button", {onclick: () => zoomed(0.8), title: "smaller (-)"}, "−"),
        run.story.length > 0 && el("button", {onclick: folded, title: "all events, or those that mattered (a)"},
          all ? "only what mattered" : `all ${rows.length} events`)),
      el("span.soft", run.story.length ? `what mattered: ${d.mattered}${all ? "" : "; the others are folded"}`
        : `${rows.length} events`),
      el("button.wide.soft", {onclick: () => $("help").showModal(), title: "the keys (?)"}, el("kbd", "?"), " keys")].filter(Boolean));
  }

  // --- what is drawn once

  function drawHead() {
    document.querySelector("h1").append(d.title);
    $("facts").append(d.facts);
    $("story").replaceChildren(...d.story.map(([kind, words]) => el(`p.${kind}`, words)));
    const sample = (...nodes) => el("svg", {viewBox: "0 0 26 14", style: hue(0)}, nodes);
    const items = [
      d.store !== false && [sample(arrow(1, 2, 24, 12, "", hue(0))), "a request, sent and applied"],
      d.store !== false && [sample(arrow(24, 3, 2, 11, "back", hue(0))), "its response"],
      d.store === false && [sample(arrow(1, 2, 24, 12, "", hue(0))), "a message, sent and received"],
      rows.some(row => row.late) && [sample(arrow(1, 2, 24, 12, "late", hue(0))), "a zombie: applied after its client stopped waiting"],
      d.pauses.some(pause => pause[4] === "stall") && [sample(line(13, 0, 13, 14, "pause")), "the client stalls"],
      d.pauses.some(pause => pause[4] === "down") && [sample(line(13, 0, 13, 14, "pause.down")), "the client is down"],
      ...[["timeout", "time-out"], ["crash", "crash"], ["refused", "refused"], ["told", "response to a caller"]].map(([kind, words]) =>
        rows.some(row => row.kind === kind) && [sample(glyph(13, 7, kind, kind === "told" ? "" : "bad")), words]),
      rows.some(row => row.befell.some(what => what.endsWith("_lost"))) && [sample(glyph(13, 7, "lost", "bad")), "lost"],
      rows.some(row => row.clock) && [sample(glyph(13, 7, "expired", "")), "a checkpoint expires"],
      d.causes.length > 0 && [sample(el("rect.mattered", {x: 0, y: 0, width: 26, height: 14, style: "fill: var(--changed); stroke: var(--mark)"})), "it mattered"],
      d.failing.length > 0 && [sample(el("rect", {x: 0, y: 0, width: 26, height: 14, style: "fill: var(--bad-back); stroke: var(--bad)"})), "it fails here"],
    ];
    $("legend").replaceChildren(...items.filter(Boolean).map(([picture, words]) => el("span", picture, words)),
      d.command && el("code", d.command));
    $("help").replaceChildren(el("h2", "Keys"), el("table", KEYS.map(([key, what]) => el("tr", el("td", el("kbd", key)), el("td", what)))),
      el("form", {method: "dialog"}, el("button.link", "close")));
  }

  const KEYS = [
    ["↑ ↓", "the event before, the next (or k, j)"], ["← →", "the one before that mattered, the next"],
    ["Home End", "the first and the last event"], ["f", "where it fails"], ["+ -", "zoom (or Ctrl and the wheel); 0: as at first"],
    ["a", "all events, or those that mattered"], ["?", "this"],
  ];

  function press(event) {
    if (((event.ctrlKey || event.metaKey || event.altKey)) || $("help").open) return;
    const does = {
      ArrowDown: () => go(cursor + 1), j: () => go(cursor + 1), ArrowUp: () => go(cursor - 1), k: () => go(cursor - 1),
      ArrowRight: () => go(run.story.length ? run.near(cursor, 1) : cursor + 1),
      ArrowLeft: () => go(run.story.length ? run.near(cursor, -1) : cursor - 1),
      Home: () => go(0), End: () => go(rows.length - 1), f: () => go(run.last), a: folded,
      "+": () => zoomed(1.25), "=": () => zoomed(1.25), "-": () => zoomed(0.8), 0: () => zoomed(0),
      "?": () => $("help").showModal(),
    }[event.key];
    if (!does) return;
    does();
    event.preventDefault();
  }

  document.onkeydown = press;
  $("scroll").onscroll = () => draw();
  $("scroll").onwheel = event => {
    if (!event.ctrlKey) return;
    zoomed(event.deltaY < 0 ? 1.15 : 0.87);
    event.preventDefault();
  };
  $("drawing").onclick = event => {
    const y = event.clientY - $("drawing").getBoundingClientRect().top;
    go(at.middle.reduce((best, middle, number) => Math.abs(middle - y) < Math.abs(at.middle[best] - y) ? number : best, 0), false);
  };
  window.onresize = () => { place(); draw(); };
  drawHead();
  const asked = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : run.last;
  if (rows.length) {
    place();
    zoom = Math.max(0.84, Math.min(1.3, (($("scroll").clientHeight || 800) - 8) / at.end));
    go(asked);
  }
}

if (typeof document !== "undefined") Page(Run(JSON.parse(document.getElementById("data").textContent)));
