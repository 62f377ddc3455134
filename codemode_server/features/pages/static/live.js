// Fetches the page again every few seconds. In its parts marked `data-live` without a button, what differs is changed, and
// all else stays as it is: scrolled, selected or unfolded. A part with buttons is replaced as a whole, unless the keyboard's
// focus is in it or the pointer is on a button, in whose place another one could come. A part marked
// `data-live="always"` is replaced, and has the focus then. The fetched page is parsed, not run. While the page is not
// visible only its title follows, and a notification says that a call waits, if the person has asked for that.
// On the list of questions the arrow keys move the focus; on the question that has it, `a` allows and `r` refuses.
"use strict";

const SECONDS = 3;
const HIDDEN_ROUNDS = 5;
const UNSEEN_MILLISECONDS = 800;

let round = 0;
let shownAt = performance.now();
let known = waiting(document);

function waiting(page) {
  return new Set(page.getElementById("navigation").dataset.waiting.split(" ").filter(Boolean));
}

function announce(page) {
  const now = waiting(page);
  const isNew = [...now].some((name) => !known.has(name));
  known = now;
  if (!isNew || document.hasFocus() || !("Notification" in window) || Notification.permission !== "granted") return;
  const said = now.size === 1 ? "A call waits for your approval" : `${now.size} calls wait for your approval`;
  const notification = new Notification("codemode-server", { body: said, tag: "codemode-approvals" });
  notification.onclick = () => window.focus();
}

// Makes a node equal to another one of the same name. Children with an id are those with this id, wherever they are.
function update(node, wanted) {
  if (node.isEqualNode(wanted)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    node.data = wanted.data;
    return;
  }
  for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  let next = node.firstChild;
  for (const child of wanted.childNodes) {
    let same = next;
    while (same !== null && (same.nodeName !== child.nodeName || same.id !== child.id)) same = child.id ? same.nextSibling : null;
    if (same === null) {
      node.insertBefore(document.importNode(child, true), next);
      continue;
    }
    if (same === next) next = next.nextSibling;
    else node.insertBefore(same, next);
    update(same, child);
  }
  while (next !== null) {
    const rest = next.nextSibling;
    next.remove();
    next = rest;
  }
}

async function refresh() {
  round += 1;
  if (document.hidden && round % HIDDEN_ROUNDS) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = fresh.title;
  announce(fresh);
  if (document.hidden) return;
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (other && !part.querySelector("button") && !other.querySelector("button")) {
      update(part, other);
      continue;
    }
    const hasFocus = part.contains(document.activeElement);
    const isInUse = hasFocus || part.querySelector("button:hover") !== null;
    if (!other || other.outerHTML === part.outerHTML || (isInUse && part.dataset.live !== "always")) continue;
    const replacement = document.importNode(other, true);
    part.replaceWith(replacement);
    shownAt = performance.now();
    if (hasFocus) replacement.focus();
  }
}

// A key allows only what is in sight as a whole.
function isInSight(question) {
  const { top, bottom } = question.getBoundingClientRect();
  const asked = question.querySelector(".asked");
  const isCut = asked.scrollHeight > asked.clientHeight + 1 || asked.querySelector("details:not([open])") !== null;
  return top > -1 && bottom < innerHeight + 1 && !isCut;  // places are fractions of a pixel
}

function onKey(event) {
  const { target, key } = event;
  const questions = [...document.querySelectorAll("[data-question]")];
  const place = questions.indexOf(target);
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (place < 0 && target !== document.body && target.id !== "content") return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[key];
  const next = step && questions[place < 0 ? 0 : place + step];
  if (next) {
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  }
  const answer = { a: "allow", r: "refuse" }[key];
  if (place < 0 || !answer || performance.now() - shownAt < UNSEEN_MILLISECONDS) return;
  const button = target.querySelector(`button[value="${answer}"]`);
  if (!button || (answer === "allow" && !isInSight(target))) location.href = target.dataset.question;
  else button.form.requestSubmit(button);
}

const notify = document.getElementById("notify");
if (notify !== null && "Notification" in window) {
  notify.hidden = Notification.permission !== "default";
  notify.onclick = async () => { notify.hidden = (await Notification.requestPermission()) !== "default"; };
}
addEventListener("keydown", onKey);
setInterval(() => refresh().catch(() => {}), SECONDS * 1000);
