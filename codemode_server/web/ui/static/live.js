// Fetches the page again every few seconds while it is visible, and replaces its parts marked `data-live` that changed,
// unless the keyboard's focus is in them. The fetched page is parsed, not run.
"use strict";

const SECONDS = 3;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.outerHTML === part.outerHTML || part.contains(document.activeElement)) continue;
    part.replaceWith(document.importNode(other, true));
  }
}

setInterval(() => refresh().catch(() => {}), SECONDS * 1000);
