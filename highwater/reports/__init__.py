"""HTML pages: the state explorer, timelines, and campaign reports."""
