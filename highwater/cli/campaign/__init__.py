"""highwater campaign: run, resume, status, replay, report, triage, sql, views."""
