// The chat page. Everything on it can be rebuilt from rows by a reload; the socket
// says what to fetch next.

import { $, $$, composing, copy, isTyping, make, parsed, say, stored, toast } from "./lib/dom.js";
import { Attachments } from "./lib/attachments.js";
import { Completion } from "./lib/completion.js";
import { Composer } from "./lib/composer.js";
import { Entries } from "./lib/entries.js";
import { Refused, getJSON, getPart, post } from "./lib/http.js";
import "./lib/lightbox.js";
import { List } from "./lib/list.js";
import { Outbox } from "./lib/outbox.js";
import { Reader } from "./lib/scroll.js";
import { Live } from "./lib/socket.js";
import { Streams } from "./lib/typing.js";

const chat = $("[data-chat]");
const { dataset } = chat;
const OPEN = ["queued", "running", "waiting"];

const reader = new Reader($("#scroll"), $("#jump"), { atEnd: markRead });
const streams = new Streams(reader, { gap: () => live.ask() });
const entries = new Entries(chat, reader, { arrived });
const list = new List();

// What is on the page changes in small steps; calls that come together become one.
function together(work, delay = 40) {
  let timer = null;
  let running = false;
  let again = false;
  return async function run() {
    if (running) return void (again = true);
    if (timer) return;
    timer = setTimeout(async () => {
      timer = null;
      running = true;
      try {
        await work();
      } catch (error) {
        if (error instanceof Refused && error.status === 404) location.reload();
      }
      running = false;
      if (again) {
        again = false;
        run();
      }
    }, delay);
  };
}

const refreshTail = together(async () => {
  const { html } = await getPart(dataset.tail);
  reader.below(() => showTail(parsed(html)));
});
const refreshWaits = together(async () => {
  const { html } = await getPart(dataset.waits);
  reader.below(() => showWaits(parsed(html)));
});
const refreshChildren = together(async () => {
  const { html } = await getPart(dataset.children);
  reader.below(() => showChildren(parsed(html)));
}, 250);
const refreshFigures = together(async () => {
  const turns = new Set($$("[data-figures]:empty, [data-figures][data-open]").map((one) => one.dataset.figures).filter(Boolean));
  const turn = $("#turn-line")?.dataset.turn;
  if (turn) turns.add(turn);
  showFigures(await getJSON(`${dataset.figures}?turns=${[...turns].slice(-100).join(",")}`));
}, 120);

function arrived(fresh, { earlier = false } = {}) {
  const assistants = fresh.filter((one) => one.dataset.kind === "assistant");
  for (const one of assistants) if (!earlier) streams.stored(Number(one.dataset.round) || Infinity);
  outbox?.settle(fresh.map((one) => one.dataset.client).filter(Boolean));
  fresh.forEach(dress);
  $("#empty-chat")?.remove();
  if (fresh.length) refreshFigures();
  if (!earlier && reader.following) markRead();
}

// Give what the server sent its buttons' words and its local times.
function dress(root) {
  for (const button of $$(".copy", root)) {
    button.textContent = say("copy");
  }
  const name = dataset.agent;
  if (name) for (const one of $$("[data-agent-name] bdi", root)) one.textContent = name;
  for (const time of $$(".message-time time", root)) {
    time.textContent = new Date(time.dateTime).toLocaleTimeString(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }
}

function turnState() {
  return $("#turn-line")?.dataset.turnState ?? "";
}

function showTail(fragment) {
  const before = turnState();
  const todo = $("[data-side-todo]", fragment);
  if (todo) $("#side-todo").replaceChildren(todo.content.cloneNode(true));
  todo?.remove();
  const tail = $("#tail");
  tail.replaceChildren(...fragment.children);
  outbox?.settle($$("[data-client]", tail).map((one) => one.dataset.client));
  const now = turnState();
  showOpen(OPEN.includes(now));
  if (now === "waiting" || $("#waits").children.length) refreshWaits();
  if (now === "waiting" || $("#entries .child")) refreshChildren();
  if (before !== now && !OPEN.includes(now) && before) {
    if (now === "finished") $("#announce").textContent = say("answered");
    entries.catchUp().then(() => streams.endAll(), () => {});
    refreshFigures();
    list.soon();
  }
  tick();
}

function showOpen(open) {
  for (const id of ["#stop-button", "#when"]) if ($(id)) $(id).hidden = !open;
}

function showWaits(fragment) {
  const box = $("#waits");
  const fresh = [...fragment.children];
  const ids = new Set(fresh.map((one) => one.id));
  for (const old of [...box.children]) if (!ids.has(old.id)) old.remove();
  const added = fresh.filter((one) => !document.getElementById(one.id));
  box.append(...added);
  if (added.length) $("#announce").textContent = say("needsYou");
  markWaiting(new Set(fresh.map((one) => one.dataset.for)));
  const line = $("[data-waits-line]");
  if (line) line.hidden = box.children.length > 0;
}

// Each child stands below the card of the call that handed out its task.
function showChildren(fragment) {
  const fresh = [...fragment.children];
  const ids = new Set(fresh.map((one) => one.id));
  for (const old of $$("#entries > * .child[id], #entries > .child[id]")) if (!ids.has(old.id)) old.remove();
  for (const one of fresh) {
    const known = document.getElementById(one.id);
    if (known) {
      if (!known.contains(document.activeElement)) known.replaceWith(one);
      continue;
    }
    const cards = $$(`#entries [data-card][data-call="${CSS.escape(one.dataset.for)}"]`);
    cards[cards.length - 1]?.after(one);
  }
}

// A call that a person must decide about does not run, and its card says so.
function markWaiting(calls) {
  for (const card of $$('#entries [data-card]:is([data-state="running"], [data-state="waiting"])')) {
    const state = calls.has(card.dataset.call) ? "waiting" : "running";
    const shown = $(".tool-facts .state", card);
    if (!shown || card.dataset.state === state) continue;
    card.classList.replace(`tool-${card.dataset.state}`, `tool-${state}`);
    card.dataset.state = state;
    shown.className = `state state-${state}`;
    shown.textContent = say(state);
  }
}

function showFigures({ header, agent, turns }) {
  const fragment = parsed(header);
  const simulated = $("[data-simulated]", fragment);
  const problem = $("[data-problem]", fragment);
  const banner = $("#simulated");
  banner.hidden = !(simulated || problem);
  banner.classList.toggle("banner-warning", Boolean(problem));
  banner.replaceChildren((problem ?? simulated)?.content.cloneNode(true) ?? "");
  simulated?.remove();
  problem?.remove();
  dataset.agent = agent;
  for (const one of $$("[data-agent-name] bdi")) one.textContent = agent;
  $("#chat-facts").replaceChildren(fragment);
  const open = OPEN.includes(turnState()) ? $("#turn-line").dataset.turn : "";
  for (const place of $$("[data-figures]")) {
    const shown = turns[place.dataset.figures];
    if (!shown) continue;
    place.textContent = shown.line;
    place.title = shown.title;
    place.toggleAttribute("data-open", place.dataset.figures === open);
  }
  const context = $("#chat-facts .gauge");
  if (context) {
    $("#side-context").replaceChildren(make("p", "field-help", context.title));
    $("#context-popover p").textContent = context.title;
  }
}

function tick() {
  const words = $("[data-working]");
  if (!words) return;
  const seconds = Math.max(0, Math.round((Date.now() - new Date($("#turn-line").dataset.started)) / 1000));
  const time = seconds < 60 ? say("seconds", { n: seconds }) : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  if (seconds >= 2) words.textContent = say("working", { time });
}

// What the socket says.

const typing = new Map();

const heard = {
  sync({ head, turns, streams: running, people }) {
    const done = head > entries.last ? entries.catchUp(head) : Promise.resolve();
    const newest = turns[turns.length - 1];
    const open = newest && OPEN.includes(newest.state) ? newest.turn : null;
    done.then(() => streams.sync(running, open), () => {});
    const line = $("#turn-line")?.dataset;
    if (newest && (newest.turn !== line?.turn || newest.state !== line?.turnState)) refreshTail();
    if (newest?.state === "waiting") {
      refreshWaits();
      refreshChildren();
    }
    showPeople(people);
  },
  resync: () => live.ask(),
  "entry.appended": ({ seq }) => entries.catchUp(seq).catch(() => {}),
  "turn.changed"({ state }) {
    showOpen(OPEN.includes(state));
    refreshTail();
    list.soon();
  },
  "message.delta": (message) => streams.delta(message),
  "message.superseded": ({ stream }) => streams.superseded(stream),
  "message.closed": ({ stream }) => streams.closed(stream),
  "wait.opened": () => refreshWaits(),
  "wait.closed": () => refreshWaits(),
  "queue.changed": () => refreshTail(),
  "child.changed"() {
    refreshChildren();
    refreshFigures();
  },
  "conversation.changed": () => renew(),
  "access.changed": () => showRights().catch(() => {}),
  "presence.changed": () => askSoon(),
  "presence.typing"({ user, name }) {
    if (user === dataset.user) return;
    typing.set(name, Date.now());
    showTyping();
  },
};

const askSoon = together(async () => live.ask(), 300);

// Whoever may write from now on, or no longer, gets the page that fits; a draft is kept.
async function showRights() {
  const { html } = await getPart(location.pathname);
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (Boolean($("#composer", fresh)) !== Boolean($("#composer"))) location.reload();
}

async function renew() {
  list.soon(0);
  refreshFigures();
  const page = await getPart(location.pathname).catch(() => null);
  if (!page) return;
  const fresh = new DOMParser().parseFromString(page.html, "text/html");
  for (const id of [".chat-title h1", "#level-now", "#level-now-short"]) {
    const [old, now] = [$(id), $(id, fresh)];
    if (old && now) old.textContent = now.textContent;
  }
}

function showPeople(people) {
  const others = people.filter((name) => name !== dataset.userName);
  $("#people").textContent = others.length ? say("here", { names: others.join(", ") }) : "";
}

function showTyping() {
  for (const [name, at] of typing) if (Date.now() - at > 5000) typing.delete(name);
  const names = [...typing.keys()];
  const key = names.length === 1 ? "typingOne" : "typingMany";
  $("#typing").textContent = names.length ? say(key, { name: names[0], count: names.length }) : "";
}

function changed(open, code) {
  const line = $("#connection");
  clearTimeout(changed.timer);
  if (open) line.hidden = true;
  else if (code === 4403) {
    line.textContent = say("revoked");
    line.hidden = false;
  } else {
    changed.timer = setTimeout(() => {
      line.textContent = say("offline");
      line.hidden = false;
    }, 2500);
  }
}

const live = new Live(dataset.socket, {
  heard: (message) => heard[message.type]?.(message),
  changed,
  question: () => ({ after: entries.last }),
  // Whatever became of the socket meanwhile, the page itself asks what is new.
  woke() {
    entries.catchUp().catch(() => {});
    refreshTail();
  },
});

// A push may be lost, a proxy may refuse sockets: ask from time to time all the same.
let beats = 0;
setInterval(() => {
  beats += 1;
  tick();
  if (typing.size) showTyping();
  if (document.hidden) return;
  const busy = OPEN.includes(turnState());
  if (live.open && beats % (busy ? 5 : 25) === 0) live.ask();
  else if (!live.open && !live.ended && beats % 3 === 0) {
    entries.catchUp().catch(() => {});
    refreshTail();
  }
}, 1000);

function markRead() {
  clearTimeout(markRead.timer);
  markRead.timer = setTimeout(() => {
    if (document.hidden || markRead.done === entries.last) return;
    markRead.done = entries.last;
    post(dataset.read, { seq: entries.last }).catch(() => (markRead.done = 0));
  }, 1500);
}

// What people do.

const form = $("#composer");
const outbox = form
  ? new Outbox(chat, reader, {
      accepted({ seq, queued }) {
        if (seq) entries.catchUp(seq).catch(() => {});
        if (queued || seq) refreshTail();
        list.soon();
      },
      discarded(text, files) {
        if (!composer.text) composer.set(text);
        attached.restore(files);
      },
    })
  : null;
const composer = form ? new Composer(form, { send }) : null;
const attached = form ? new Attachments(form, { changed: () => reader.scrolled() }) : null;
if (composer && form.dataset.complete) new Completion(composer.field, form.dataset.complete);
if (composer) composer.carries = () => attached.items.length > 0;
// What stands in the outbox already is not to be sent twice.
for (const { files = [] } of outbox?.kept() ?? []) {
  for (const one of files) $(`#attached [data-attachment="${CSS.escape(one.attachment)}"]`)?.remove();
}

function send(event) {
  event.preventDefault();
  const text = composer.text;
  if (text === "/attach" && !composer.editing) {
    composer.set("");
    return attached.choose();
  }
  if (attached.busy) return toast(say("stillUploading"));
  if (!text && (composer.editing || !attached.items.length)) return;
  const context = text.match(/^\/context(\s+detail)?$/);
  if (context && !composer.editing) {
    composer.set("");
    return location.assign(dataset.context + (context[1] ? "?open" : ""));
  }
  const page = text.match(/^\/(mode|tools)$/);
  if (page && !composer.editing) {
    composer.set("");
    return location.assign(dataset[page[1]]);
  }
  const runs = /^\/(compact(\s|$)|mode\s+\S+$|plan$)/.test(text);
  if (runs && !composer.editing) return command(text);
  const when = form.elements.when?.value ?? "steer";
  const editing = composer.editing;
  endEditing();
  composer.set("");
  $("#empty-chat")?.remove();
  reader.following = true;
  if (editing) outbox.send(dataset.resend, { text, to_seq: editing });
  else {
    const files = attached.take();
    outbox.send(dataset.post, { text, when, attached: files.map((one) => one.attachment).join() }, files);
  }
  if (entries.partial) outbox.line.then(() => location.assign(location.pathname));
}

// A command is no message: what was typed stays when it is refused.
async function command(text) {
  composer.set("");
  try {
    const { seq } = await post(dataset.post, { text });
    if (seq) await entries.catchUp(seq).catch(() => {});
    refreshTail();
  } catch (error) {
    if (!composer.text) composer.set(text);
    toast(say("failed", { reason: error.message }), "error");
  }
}

function beginEditing(message) {
  composer.editing = message.dataset.seq;
  const note = $("#editing");
  $("span", note).textContent = say("edit");
  note.hidden = false;
  composer.set($("[data-source]", message).textContent, { keep: false });
  composer.field.focus();
}

function endEditing() {
  if (!composer?.editing) return;
  composer.editing = null;
  $("#editing").hidden = true;
  composer.set(stored(composer.key));
}

let typed = 0;
composer?.field.addEventListener("input", () => {
  if (Date.now() - typed < 3000 || !composer.text) return;
  typed = Date.now();
  live.tell({ typing: true });
});
$("#editing button")?.addEventListener("click", endEditing);

const after = {
  retry: () => entries.catchUp().catch(() => {}).then(refreshTail),
  stop: () => refreshTail(),
  "stop-child": () => refreshChildren(),
  withdraw(answer) {
    if (answer.text && !composer.text) composer.set(answer.text);
    attached.restore(answer.attached);
    refreshTail();
  },
  answer(answer, form) {
    form.closest("[data-wait]")?.remove();
    refreshWaits();
    refreshTail();
  },
  level(answer, form, button) {
    $("#level-now").textContent = button.dataset.label;
    $("#level-now-short").textContent = button.dataset.short;
    for (const one of $$("button", form)) one.ariaCurrent = one === button ? "true" : null;
    form.closest("details").open = false;
  },
};

document.addEventListener("submit", async (event) => {
  const { target, submitter } = event;
  if (!target.dataset.action || event.defaultPrevented) return;
  event.preventDefault();
  const fields = new FormData(target, submitter);
  const buttons = $$("button", target);
  for (const one of buttons) one.disabled = true;
  if (target.dataset.action === "stop") $("#stop-button").disabled = true;
  try {
    after[target.dataset.action](await post(target.action, fields), target, submitter);
  } catch (error) {
    const reason = error instanceof Refused ? error.message : say("unreachable");
    toast(say("failed", { reason }), "error");
    if (target.dataset.action === "answer") refreshWaits();
  }
  for (const one of buttons) one.disabled = false;
  if ($("#stop-button")) $("#stop-button").disabled = false;
});

document.addEventListener("click", (event) => {
  const { target } = event;
  const button = target.closest("[data-copy], [data-edit], [data-example], [data-permalink]");
  if (!button) return;
  const message = button.closest(".message");
  const copied = () => {
    if (button.matches(".copy")) button.textContent = say("copied");
    else toast(say("copied"));
    setTimeout(() => button.matches(".copy") && (button.textContent = say("copy")), 1500);
  };
  if (button.dataset.copy === "code") copy($("pre", button.closest("figure")).textContent, copied);
  else if (button.dataset.copy === "message") {
    const source = $("[data-source-text]", message);
    copy(source ? source.content.textContent : $(".message-body", message).textContent, copied);
  } else if (button.matches("[data-edit]")) beginEditing(message);
  else if (button.matches("[data-example]")) {
    composer.set(button.textContent.trim());
    composer.field.focus();
  } else if (button.matches("[data-permalink]") && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    copy(button.href, () => toast(say("linkCopied")));
  }
});

document.addEventListener("keydown", (event) => {
  if (composing(event) || $("dialog[open]")) return;
  if (event.key === "Escape") {
    if (composer?.editing) return endEditing();
    if (closeSide()) return;
    if ($("#stop-button") && !$("#stop-button").hidden) $("#stop").requestSubmit();
    return;
  }
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  const wait = $(`#waits [data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (wait) {
    event.preventDefault();
    wait.click();
  }
});

// The side panel remembers whether it was open, where there is room for it.

const shell = $(".shell");
const toggle = $("#side-toggle");
const wide = matchMedia("(width >= 1440px)");

function showSide(open) {
  shell.classList.toggle("side-open", open);
  toggle.setAttribute("aria-expanded", String(open));
}

function closeSide() {
  if (wide.matches || !shell.classList.contains("side-open")) return false;
  showSide(false);
  toggle.focus();
  return true;
}

toggle.addEventListener("click", () => {
  const open = !shell.classList.contains("side-open");
  if (wide.matches) stored("side", open ? "" : "closed");
  showSide(open);
});
$("#side-close").addEventListener("click", () => closeSide());
wide.addEventListener("change", () => showSide(wide.matches && stored("side") !== "closed"));

showSide(wide.matches && stored("side") !== "closed");
dress(chat);
tick();
refreshFigures();
if (turnState() === "waiting") refreshWaits();
if (location.hash.startsWith("#seq-")) {
  const target = document.getElementById(location.hash.slice(1));
  target?.scrollIntoView({ block: "center" });
  target?.classList.add("is-target");
  reader.scrolled();
} else reader.jump();
addEventListener("load", () => reader.following && reader.toEnd());
if (matchMedia("(hover: hover)").matches && innerWidth > 760) composer?.field.focus({ preventScroll: true });
