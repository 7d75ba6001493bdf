"use strict";

// --- the graph: a state is [number of the shared part, number of each local part]. No document from here to Page.

function World(d) {
  const tables = d.moves.map(rows => new Map(rows.map(row => [row[0] + "," + row[1], row])));
  const pair = (state, p) => tables[p].get(state[0] + "," + state[p + 1]);  // undefined: not in this page
  const actions = p => d.roles[d.processes[p][1]].actions;
  const text = number => d.texts[number];
  const name = (p, action) => p < 0 ? "Init" : actions(p)[action][0];
  const base = d.trace.map(([state, p, action, choices]) => ({state, p, action, choices}));

  function moves(state) {
    const found = [];
    for (let p = 0; p < tables.length; p++) {
      const row = pair(state, p) || [];
      for (let i = 4; i < row.length; i += 4) {
        const to = state.slice();
        to[0] = row[i + 2];
        to[p + 1] = row[i + 3];
        found.push({p, action: row[i], choices: row[i + 1], state: to});
      }
    }
    return found;
  }

  function refusal(number) {
    const [guard, where, operands, needs] = d.refusals[number];
    return {guard: text(guard), where: text(where), operands: operands.map(text), needs: needs < 0 ? null : refusal(needs)};
  }

  // What process p cannot do, and why; null: it is not in this page.
  function refused(state, p) {
    const row = pair(state, p);
    return row && d.rows[row[2]].flatMap((number, action) => number < 0 ? [] : [{action, why: refusal(number)}]) || null;
  }

  // failing: [{property, process or -1, why}]; held: of the other properties those that are true here, `sometimes` of one
  // process, `eventually` of each.
  function verdicts(state) {
    const failing = [], times = new Map();
    const add = (row, p) => {
      const [no, yes] = d.verdicts[row];
      for (const [property, why] of no) failing.push({property, p, why: refusal(why)});
      for (const property of yes) times.set(property, (times.get(property) || 0) + 1);
    };
    add(d.judged[state[0]], -1);
    for (let p = 0; p < tables.length; p++) if (pair(state, p)) add(pair(state, p)[3], p);
    const held = new Set([...times].filter(([property, n]) => {
      const [kind, , role] = d.properties[property];
      return kind === "sometimes" || role === null || n === d.processes.filter(([, of]) => of === role).length;
    }).map(([property]) => property));
    const first = ({property}) => d.properties[property][1] === d.violated ? 0 : 1;  // what the trace is about
    return {failing: failing.sort((x, y) => first(x) - first(y)), held};
  }

  const beyond = state => tables.map((_, p) => p).filter(p => !pair(state, p));  // whose moves are not in this page

  // The properties of processes whose part of this state is not in this page.
  function unjudged(state) {
    const roles = new Set(beyond(state).map(p => d.processes[p][1]));
    return new Set(d.properties.map((_, i) => i).filter(i => roles.has(d.properties[i][2])));
  }

  // A place is written #7, step 7 of the trace, or #7.2.0: from there move 2, then move 0, counted from 0.
  function read(hash) {
    const [at, ...numbers] = hash.slice(1).split(".").map(part => part ? Number(part) : NaN);
    if (!(Number.isInteger(at) && at >= 0 && at < base.length)) return {at: base.length - 1, own: [], steps: base};
    const own = [], steps = base.slice(0, at + 1);
    for (const number of numbers) {
      const move = moves(steps[steps.length - 1].state)[number];
      if (!move) break;
      own.push(number);
      steps.push(move);
    }
    return {at, own, steps: own.length ? steps : base};
  }

  const write = (at, own = []) => "#" + [at, ...own].join(".");
  const same = (x, y) => x && y && x.p === y.p && x.action === y.action && x.choices === y.choices
    && x.state.every((part, i) => part === y.state[i]);
  return {d, moves, refused, verdicts, unjudged, beyond, name, actions, text, base, same, read, write};
}

// --- the page -----------------------------------------------------------------------------------------------------------

// el("p.soft.wide", {title: ".."}, "text", [more, null]): what is null, false, 0 or undefined is left out.
function el(kind, ...children) {
  const [tag, ...classes] = kind.split("."), node = document.createElement(tag);
  const plain = children[0] !== null && typeof children[0] === "object" && children[0].constructor === Object;
  for (const [key, value] of Object.entries(plain ? children.shift() : {})) {
    if (key === "onclick") node.onclick = value;
    else if (value !== null && value !== false && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  if (classes.some(Boolean)) node.setAttribute("class", classes.filter(Boolean).join(" "));
  node.append(...children.flat(Infinity).filter(Boolean));
  return node;
}

function Page(world) {
  const {d} = world, $ = id => document.getElementById(id), last = world.base.length - 1;
  let line = null, cursor = 0;  // the walk {at, own, steps}, and the number of the step that is shown
  const opened = new Set();  // what was unfolded stays so

  const who = p => p < 0 ? "" : d.processes[p][0];
  const hue = p => p >= 0 && d.processes[p][1] ? `--of: var(--p${p % 8})` : null;
  const dot = p => el("span.dot", {style: hue(p)});
  const many = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
  const choices = step => step.choices && world.text(step.choices) ? el("code", " " + world.text(step.choices)) : null;

  function folded(key, summary, ...children) {
    const head = el("summary", summary), node = el("details", {open: opened.has(key)}, head, children);
    head.onclick = () => node.open ? opened.delete(key) : opened.add(key);
    return node;
  }

  // --- going from place to place

  const hashOf = index => !line.own.length || index <= line.at ? world.write(index)
    : world.write(line.at, line.own.slice(0, index - line.at));
  const go = hash => { if (location.hash === hash) arrive(); else location.hash = hash; };

  function arrive() {
    const place = world.read(location.hash);
    const along = line && line.own.length && (place.own.length
      ? place.at === line.at && place.own.every((number, i) => number === line.own[i]) : place.at <= line.at);
    if (!along) line = place;
    cursor = place.at + place.own.length;
    drawBar(); drawSteps(); drawState(); drawMoves();
  }

  function step(by) {
    const around = by > 0 && cursor === last && !line.own.length && d.loop !== null;
    const to = around ? d.loop + 1 : cursor + by;
    if (to >= 0 && to < line.steps.length) go(hashOf(to));
  }

  function home() {  // back to the trace, at the step where one's own walk left it
    const at = line.own.length ? Math.min(cursor, line.at) : cursor;
    line = null;
    go(world.write(at));
  }

  function take(number) {
    const move = world.moves(line.steps[cursor].state)[number];
    if (!move) return;
    if (world.same(line.steps[cursor + 1], move)) return step(1);
    const at = line.own.length ? Math.min(cursor, line.at) : cursor, own = line.own.slice(0, Math.max(0, cursor - line.at));
    line = world.read(world.write(at, [...own, number]));
    go(world.write(line.at, line.own));
  }

  // --- the bar, and the steps

  function drawBar() {
    const state = line.steps[cursor].state, end = line.steps.length - 1;
    const cycle = d.loop !== null && !line.own.length && cursor >= d.loop;
    const {failing} = world.verdicts(state), fails = failing.length ? d.properties[failing[0].property] : null;
    const round = cycle && d.loop < last && cursor === last;
    const jump = (text, to, title) => el("button", {onclick: () => go(hashOf(to)), title, disabled: cursor === to}, text);
    const more = failing.length > 1 ? ` (And ${failing.length - 1} more.)` : "";
    const verdict = cycle ? [el("b", `${d.violated} fails: `), d.loop < last
      ? `steps ${d.loop + 1} to ${last} can repeat forever without reaching it.` : "it may stay in this state forever.",
    fails && ` (And ${fails[1]} fails here.)`]
      : fails ? [el("b", `${fails[1]} fails here. `), fails[3], more]
      : world.beyond(state).length ? "This state is at the edge of the page. No property that the page can check fails in it."
      : "All `always` properties hold here.";
    $("bar").replaceChildren(
      el("div.go", jump("⇤", 0, "the first step (Home)"),
        el("button", {onclick: () => step(-1), title: "back (←)", disabled: cursor === 0}, "◀ back"),
        el("button", {onclick: () => step(1), title: "forward (→)", disabled: cursor === end && !round}, "forward ▶"),
        jump("⇥", end, "the last step (End)")),
      el("span", {id: "where"}, end ? `step ${cursor} of ${end}` : "the initial state"),
      el(`div.${fails || cycle ? "fails" : "holds"}`, {id: "verdict", role: "status"}, verdict),
      el("button.wide.soft", {onclick: notes, title: "what each field is (n)"}, el("kbd", "n"), " notes"),
      el("button.wide.soft", {onclick: () => $("help").showModal(), title: "the keys (?)"}, el("kbd", "?"), " keys"));
  }

  function drawSteps() {
    const own = line.own.length > 0, items = [];
    const failing = step => world.verdicts(step.state).failing.map(({property}) => d.properties[property][1])[0];
    line.steps.forEach((step, i) => {
      const fails = failing(step), first = fails && !(i && failing(line.steps[i - 1]) === fails);
      const cycle = own || d.loop === null ? null
        : i === d.loop ? (d.loop < last ? "↻ the cycle begins here" : "↻ it may stay here forever")
        : i === last ? `↻ the same state as after step ${d.loop}: the cycle repeats forever` : null;
      if (own && i === line.at + 1) items.push(el("p.apart.soft", "from here on, your own steps"));
      items.push(el(`li.${i > cursor ? "ahead" : ""}`, {"aria-current": i === cursor ? "step" : null},
        el("button", {onclick: () => go(hashOf(i))}, el("span.n.faint.mono", String(i)), dot(step.p),
          el("span.what", el("b", world.name(step.p, step.action)), choices(step), el("span.who.soft", " " + who(step.p)),
            first && el("div.fails", "✗ ", fails), cycle && el("div.who.soft", cycle)))));
    });
    const title = own || !last ? "Your walk" : d.violated ? "The counterexample" : "The trace";
    const back = `back to the ${last ? "counterexample" : "beginning"}`;
    const below = own ? el("p.apart", el("button.link", {onclick: home}, back))
      : last ? null : el("p.soft", "This is the initial state. Take a step.");
    const box = $("steps");
    box.replaceChildren(el("h2", title), el("ol", items), ...(below ? [below] : []));
    const current = box.querySelector("[aria-current]");
    if (current) box.scrollTop = Math.max(0, current.offsetTop - box.clientHeight / 2);
  }

  // --- the state. A value is a text, or ["{", element ..] or ["(", element ..], or ["=", [key, text] ..]

  const short = value => typeof value === "string" ? value
    : value.slice(1).map(part => Array.isArray(part) ? `${part[0]}: ${part[1]}` : part).join(", ");
  const bare = number => short(world.text(number)).replaceAll('"', "");
  const empty = value => Array.isArray(value) ? value.length === 1 : /^(0|False|None|\(\)|\w+\(\))$/.test(value);
  const changed = (old, now) => [el("del", old), " → ", el("ins", now)];

  function shown(old, now) {  // old: the value before the last step
    if (typeof old === "string" || typeof now === "string")
      return old === now ? [now] : changed(short(old) || "nothing", short(now) || "nothing");
    return now[0] === "=" ? entries(new Map(old.slice(1)), new Map(now.slice(1))) : elements(old.slice(1), now);
  }

  function entries(old, now) {
    const keys = [...new Set([...now.keys(), ...old.keys()])].sort((x, y) => x - y || (x < y ? -1 : x > y ? 1 : 0));
    const of = key => !now.has(key) ? el("del", old.get(key))
      : !old.has(key) || old.get(key) === now.get(key) ? now.get(key) : changed(old.get(key), now.get(key));
    return keys.length ? keys.map(key => el(`div.entry.${old.has(key) ? "" : "new"}`, el("span", key), el("span", of(key))))
      : ["none"];
  }

  function elements(left, now) {
    const chips = now.slice(1).map(part => {
      const at = left.indexOf(part);
      if (at >= 0) left.splice(at, 1);
      return el(`span.chip.${at < 0 ? "new" : ""}`, part);
    });
    chips.push(...left.map(part => el("span.chip.gone", el("del", part))));
    return chips.length ? chips : [now[0] === "{" ? "{}" : "()"];
  }

  function fields(notes, part, from, to) {
    const numbers = d.values[part][to], before = d.values[part][from];
    return el("dl", notes.map(([name, note], i) => {
      if (name === "pc" && part > 0) return null;  // it stands in the head of the card
      const now = world.text(numbers[i]), differs = numbers[i] !== before[i];
      return el(`div.row.${differs ? "changed" : empty(now) ? "empty" : ""}`,
        el("dt", {title: note || null}, name), el("dd", shown(world.text(before[i]), now)), note && el("p.note", note));
    }));
  }

  function course(notes, part, from, to) {
    const at = notes.findIndex(([name]) => name === "pc");
    if (at < 0) return null;
    const [old, now] = [from, to].map(number => bare(d.values[part][number][at]));
    return el(`span.mono.pc.${old === now ? "" : "changed"}`, {title: notes[at][1] || null}, shown(old, now));
  }

  function drawState() {
    const step = line.steps[cursor], to = step.state, from = cursor ? line.steps[cursor - 1].state : to;
    const cards = d.processes.map(([name, role], p) => {
      const notes = d.roles[role].fields;
      return notes.length && el(`div.card.part.${step.p === p ? "acted" : ""}`, {style: hue(p)},
        el("h3", dot(p), name, course(notes, p + 1, from[p + 1], to[p + 1])), fields(notes, p + 1, from[p + 1], to[p + 1]));
    });
    $("state").replaceChildren(
      el("div.card.part", el("h3", "Shared"), fields(d.shared, 0, from[0], to[0])),
      el("div.clients", cards.filter(Boolean)), properties(to));
  }

  function properties(state) {
    const {failing, held} = world.verdicts(state), unjudged = world.unjudged(state);
    const failed = new Set(failing.map(({property}) => property)), all = d.properties.map((_, i) => i);
    const always = all.filter(i => d.properties[i][0] === "always");
    const holding = always.filter(i => !failed.has(i) && !unjudged.has(i)).length;
    const reasons = failing.map(({property, p, why}) => el("div.property.fails", el("b", d.properties[property][1]),
      p >= 0 ? ` of ${who(p)}` : "", " ", el("span.soft", d.properties[property][3]), because(why, "it needs ")));
    const rest = all.filter(i => !failed.has(i)).map(i => {
      const [kind, name, , doc] = d.properties[i], so = kind === "always" || held.has(i);
      const says = unjudged.has(i) ? "Not checked: it depends on states that are not in this page. "
        : kind === "always" ? "" : `${kind}: ${held.has(i) ? "true here. " : "not true here. "}`;
      return el(`div.property.${so && !unjudged.has(i) ? "holds" : "not"}`, el("b", name), " ", el("span.soft", says + doc));
    });
    const chips = (kind, what) => {
      const so = all.filter(i => held.has(i) && d.properties[i][0] === kind).map(i => d.properties[i]);
      return so.length ? el("p.held", el("span.soft", what),
        so.map(([, name, , doc]) => el("span.chip", {title: doc || null}, name))) : null;
    };
    return el("div.card", el("h2", "Properties here"), reasons,
      folded("properties", `${holding} of ${always.length} \`always\` properties hold`, rest),
      chips("sometimes", "`sometimes`, true here: "), chips("eventually", "`eventually`, true here: "));
  }

  // --- the moves

  const source = why => el("span.source.mono", why.where);
  const elsewhere = why => why.needs ? elsewhere(why.needs) : /\.pc\b/.test(why.guard);

  function because(why, before, cited = false) {
    return el("div", el("span.soft", before), el("code", why.guard), " ", !cited && source(why),
      why.needs ? because(why.needs, "which needs ") : why.operands.length && el("div.operands.mono", why.operands.join(", ")));
  }

  function effect(from, {p, state: to}) {
    const differing = (notes, part) => {
      const [old, now] = [from, to].map(state => d.values[part][state[part]]);
      return notes.map(([name], i) => [name, old[i], now[i]]).filter(([, x, y]) => x !== y);
    };
    const own = differing(d.roles[d.processes[p][1]].fields, p + 1), pc = own.find(([name]) => name === "pc");
    const shared = differing(d.shared, 0).map(([name]) => name).join(", ");
    const others = own.filter(([name]) => name !== "pc").map(([name]) => name || "state").join(", ");
    const words = [pc && `${bare(pc[1])} → ${bare(pc[2])}`, shared && `changes ${shared}`,
      others && `${shared ? "and" : "changes"} its own ${others}`];
    return words.filter(Boolean).join("; ") || "changes nothing";
  }

  function button(move, number, from, next) {
    const [name, doc, where, guards] = world.actions(move.p)[move.action], follows = world.same(next, move);
    const failed = new Set(world.verdicts(from).failing.map(({property}) => property));
    const risk = world.verdicts(move.state).failing.map(({property}) => property).find(property => !failed.has(property));
    return el(`button.move.${follows ? "next" : ""}`, {
      style: hue(move.p), onclick: () => take(number), title: [doc, where, guards.join("\n")].filter(Boolean).join("\n\n"),
    }, el("span.name", name, choices(move)),
    el("span", risk !== undefined && el("span.risk", {title: `${d.properties[risk][1]} holds here and fails in that state`}, "✗ "),
      follows && el("span.tag", {title: "the next step"}, "→ "), number < 9 && el("kbd.wide", String(number + 1))),
    el("span.effect", effect(from, move)));
  }

  function drawMoves() {
    const state = line.steps[cursor].state, moves = world.moves(state), beyond = world.beyond(state);
    const of = p => [el("h3", dot(p), who(p))];
    const can = d.processes.map((_, p) => {
      const own = moves.flatMap((move, n) => move.p === p ? [button(move, n, state, line.steps[cursor + 1])] : []);
      return own.length && el("div.group", of(p), own);
    });
    const told = ({action, why}, p) => el("div.no",
      el("div.head", el("span.name", world.name(p, action)), source(why)), because(why, "needs ", true));
    const cannot = d.processes.map((_, p) => {
      const list = world.refused(state, p) || [], now = list.filter(({why}) => !elsewhere(why));
      const later = list.filter(({why}) => elsewhere(why)).map(one => told(one, p));
      return list.length && el("div.group", of(p), el("div", now.map(one => told(one, p))), later.length > 0
        && el("div.others", folded(p, `${later.length}${now.length ? " more" : ""}: needs another pc`, later)));
    }).filter(Boolean);
    const whose = beyond.length === d.processes.length ? "can happen" : `${beyond.map(who).join(", ")} can do`;
    const edge = beyond.length > 0 && el("p.edge", `What ${whose} here is not in this page.`,
      d.more && [" A page with more: ", el("code.command", d.more)]);
    const title = edge ? "The edge of this page" : moves.length ? `What can happen: ${moves.length}` : "Nothing can happen";
    $("moves").replaceChildren(el("div.card", el("h2", title), can.filter(Boolean), edge),
      ...(cannot.length ? [el("div.card", el("h2", "What cannot happen, and why"), cannot)] : []));
  }

  // --- what is drawn once, and the keys

  function drawHead() {
    const set = d.constants.filter(([, , changed]) => changed);
    document.querySelector("h1").append(d.name);
    $("set").replaceChildren(...(set.length
      ? set.map(([name, value, , note]) => el("code.chip", {title: note || null}, `${name} = ${value}`))
      : [el("span.soft", "with the default constants")]));
    document.querySelector("header").append(el("details", el("summary", `all ${d.constants.length} constants`),
      el("table.constants", el("tbody", d.constants.map(([name, value, changed, note]) =>
        el(`tr.${changed ? "set" : ""}`, el("td.mono", name), el("td.mono", value), el("td.soft", note)))))));
  }

  function drawFoot() {
    const start = d.trace.length > 1 ? "trace" : "initial state";
    const extent = d.radius === null ? `The whole graph: ${many(d.states, "state")}, ${many(d.edges, "move")}.`
      : `Not the whole graph: the ${many(d.states, "state")} within ${many(d.radius, "step")} of the ${start}, `
        + `with their ${many(d.edges, "move")}; a page has at most ${d.limit.toLocaleString("en")} states.`;
    const lines = [el("p", `${extent} This file: ${d.size}, and it needs no network.`),
      d.radius !== null && d.more && el("p", "More of it: ", el("code.command", d.more)),
      d.command && el("p", "Written by ", el("code.command", d.command))];
    document.querySelector("footer").replaceChildren(...lines.filter(Boolean));
  }

  const notes = () => document.body.classList.toggle("notes");
  const KEYS = [
    ["← →", "back, forward (or h, l)"], ["Home End", "the first and the last step"], ["1 … 9", "take that move"],
    ["c", "back to the counterexample"], ["n", "what each field is"], ["?", "this"],
  ];

  function drawHelp() {
    $("help").replaceChildren(el("h2", "Keys"),
      el("table", KEYS.map(([key, what]) => el("tr", el("td", el("kbd", key)), el("td", what)))),
      el("p.soft.place", "The address holds the place, so it can be sent: #7 is step 7; #7.2.0 goes on from there with "
        + "the third move and then the first."),
      el("form", {method: "dialog"}, el("button.link", "close")));
  }

  document.onkeydown = event => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    const does = {
      ArrowRight: () => step(1), l: () => step(1), ArrowLeft: () => step(-1), h: () => step(-1), c: home, n: notes,
      Home: () => go(hashOf(0)), End: () => go(hashOf(line.steps.length - 1)), "?": () => $("help").showModal(),
    }[event.key] || (/^[1-9]$/.test(event.key) && (() => take(Number(event.key) - 1)));
    if (!does) return;
    does();
    event.preventDefault();
  };
  window.onhashchange = arrive;
  drawHead(); drawFoot(); drawHelp();
  arrive();
}

if (typeof document !== "undefined") Page(World(JSON.parse(document.getElementById("data").textContent)));
