// Fetches the page again every few seconds while it is visible, and replaces its parts marked `data-live` that changed,
// unless the keyboard's focus is in them, or the pointer is on one of their buttons, in whose place another one could
// come. A part marked `data-live="always"` is replaced, and has the focus then. The fetched page is parsed, not run.
"use strict";

const SECONDS = 3;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    const hasFocus = part.contains(document.activeElement);
    const isInUse = hasFocus || part.querySelector("button:hover") !== null;
    if (!other || other.outerHTML === part.outerHTML || (isInUse && part.dataset.live !== "always")) continue;
    const replacement = document.importNode(other, true);
    part.replaceWith(replacement);
    if (hasFocus) replacement.focus();
  }
}

setInterval(() => refresh().catch(() => {}), SECONDS * 1000);
