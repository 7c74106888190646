// The context explorer: search, texts on opening, and what other choices would cost.
// Texts of the request are untrusted and only ever set with textContent.

import { $, $$, make, say } from "./lib/dom.js";
import { Refused, getJSON } from "./lib/http.js";

const page = $("[data-explorer]");
const LANGUAGE = document.documentElement.lang;
const grouped = (value) => Math.round(value).toLocaleString(LANGUAGE);

// Texts: fetched when a part is opened, large ones piece by piece.

const CONTROLS = { n: "\n", r: "\n", t: "\t", b: " ", f: " " };
const readable = $("#readable");

function lined(text) {
  return text.replace(/\\(?:(["\\/])|([bfnrt])|u([0-9a-fA-F]{4}))/g, (whole, same, control, code) =>
    same ?? (control ? CONTROLS[control] : String.fromCharCode(parseInt(code, 16))));
}

function show(part) {
  $("pre", part).textContent = readable.checked ? lined(part.sent) : part.sent;
}

async function load(part, number = 0) {
  if (part.loading) return;
  part.loading = true;
  const body = $(".tree-body", part);
  for (const old of $$(".tree-wrong, .button", body)) old.remove();
  const note = make("p", "field-help", say("loading"));
  const timer = setTimeout(() => body.append(note), 300); // ms
  try {
    const { text, next } = await getJSON(`${part.dataset.text}?part=${number}`);
    if (!$("pre", body)) {
      body.append(make("pre", "segment-text"));
      $("pre", body).tabIndex = 0;
    }
    part.sent = (part.sent ?? "") + text;
    show(part);
    if (next) {
      const more = make("button", "button button-small", say("more"));
      more.type = "button";
      more.addEventListener("click", () => load(part, next));
      body.append(more);
    }
  } catch (error) {
    const gone = error instanceof Refused && error.status === 404;
    const reason = gone ? say("gone") : error instanceof Refused ? error.message : say("unreachable");
    body.append(make("p", "tree-wrong", reason));
  }
  clearTimeout(timer);
  note.remove();
  part.loading = false;
}

for (const part of $$(".tree-part")) {
  part.addEventListener("toggle", () => part.open && part.sent === undefined && load(part));
}
readable.addEventListener("change", () => {
  for (const part of $$(".tree-part")) if (part.sent !== undefined) show(part);
});

// Search: the server knows the texts; the newest question wins.

const field = $("#tree-words");
let asked = 0;

function keep(found) {
  for (const line of $$("#tree [data-digest]")) line.hidden = found !== null && !found.has(line.dataset.digest);
  for (const group of $$("#tree [data-group]")) {
    group.hidden = found !== null && !$("[data-digest]:not([hidden])", group);
    if (found !== null) group.open = true;
  }
  const count = $$("#tree [data-digest]:not([hidden])").length;
  $("#tree-found").textContent = found === null ? "" : count ? say("found", { n: count }) : say("none");
}

async function search() {
  const mine = ++asked;
  const words = field.value.trim();
  if (!words) return keep(null);
  try {
    const { found } = await getJSON(`${page.dataset.find}?${new URLSearchParams({ q: words })}`);
    if (mine === asked) keep(new Set(found));
  } catch (error) {
    if (mine === asked) $("#tree-found").textContent = error instanceof Refused ? error.message : say("unreachable");
  }
}

field.addEventListener("input", () => {
  clearTimeout(search.timer);
  search.timer = setTimeout(search, 180); // ms
});
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(search.timer);
  search();
});
if (field.value) search();

// What would change: sums over the numbers that came with the page.

const panel = $("#what-if");
const boxes = $$("input[data-change]", panel);
const [total, cap, reserved] = ["total", "cap", "reserved"].map((name) => Number(page.dataset[name]));

function recount() {
  let delta = 0;
  for (const box of boxes) {
    const changed = box.checked !== box.defaultChecked;
    box.closest(".choice").classList.toggle("is-changed", changed);
    if (changed) delta += Number(box.dataset.change);
  }
  const then = Math.max(0, total + Math.round(delta));
  const widest = Math.max(total, then, 1);
  $("#what-total").textContent = grouped(then);
  $("#what-available").textContent = grouped(Math.max(0, cap - then - reserved));
  $(".what-now", panel).setAttribute("width", (1000 * total) / widest);
  $("#what-bar").setAttribute("width", (1000 * then) / widest);
  const line = $("#what-delta");
  const sign = delta < 0 ? "−" : "+";
  const percent = sign + Math.abs((100 * delta) / Math.max(1, total)).toLocaleString(LANGUAGE, { maximumFractionDigits: 1 });
  line.dataset.way = Math.round(delta) === 0 ? "" : delta > 0 ? "more" : "less";
  line.textContent = boxes.some((box) => box.checked !== box.defaultChecked)
    ? say("changed", { delta: sign + grouped(Math.abs(delta)), percent })
    : say("same");
}

panel.addEventListener("change", recount);
$("[data-all]", panel).addEventListener("click", () => {
  for (const box of boxes) box.checked = true;
  recount();
});
$("[data-reset]", panel).addEventListener("click", () => {
  for (const box of boxes) box.checked = box.defaultChecked;
  recount();
});
panel.hidden = false;
