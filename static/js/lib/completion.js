// Offers files behind `@` and commands behind a leading `/`. The field keeps the focus:
// arrows choose, Enter or Tab takes, Escape closes; a click works too.

import { composing, make } from "./dom.js";
import { getJSON } from "./http.js";

const FILE = /(?:^|[\s(])@("[^"\n]*|[^\s"]*)$/;
const COMMAND = /^\/(\S*)$/;
const WAIT = 120; // milliseconds after a key

export class Completion {
  constructor(field, url) {
    this.field = field;
    this.url = url;
    this.list = make("ul", "completion");
    this.list.id = "completion";
    this.list.hidden = true;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", field.dataset.offers);
    field.before(this.list);
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", "completion");
    field.addEventListener("input", (event) => this.later(event));
    field.addEventListener("blur", () => this.close());
    // Before the composer's own listener, which would send at Enter.
    field.addEventListener("keydown", (event) => this.pressed(event), { capture: true });
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const item = event.target.closest("[role=option]");
      if (item) this.take([...this.list.children].indexOf(item));
    });
  }

  later(event) {
    clearTimeout(this.timer);
    if (event.isComposing) return;
    this.timer = setTimeout(() => this.ask(), WAIT);
  }

  get wanted() {
    if (this.field.selectionStart !== this.field.selectionEnd) return null;
    const before = this.field.value.slice(0, this.field.selectionStart);
    const command = before.match(COMMAND);
    if (command) return { kind: "command", q: command[1], start: 0 };
    const file = before.match(FILE);
    return file && { kind: "file", q: file[1], start: before.length - file[1].length - 1 };
  }

  async ask() {
    const wanted = this.wanted;
    if (!wanted) return this.close();
    const query = new URLSearchParams({ kind: wanted.kind, q: wanted.q });
    const found = await getJSON(`${this.url}?${query}`).catch(() => ({ offers: [] }));
    const now = this.wanted;
    if (!now || now.q !== wanted.q || document.activeElement !== this.field) return;
    this.show(found.offers, wanted.start);
  }

  show(offers, start) {
    this.offers = offers;
    this.start = start;
    this.list.replaceChildren(...offers.map((offer, index) => {
      const item = make("li", "", offer.label);
      item.id = `completion-${index}`;
      item.setAttribute("role", "option");
      if (offer.about) item.append(make("span", "completion-about", offer.about));
      return item;
    }));
    this.list.hidden = !offers.length;
    this.choose(0);
  }

  // A command that is written in full: Enter has nothing to add and sends it.
  get complete() {
    const written = this.field.value.trim();
    const offered = this.chosen ? [this.offers[this.chosen]] : this.offers;
    return written.startsWith("/") && offered.some((one) => one.value.trim() === written);
  }

  choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", at === index));
    const item = this.list.children[index];
    if (item && !this.list.hidden) {
      this.field.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else this.field.removeAttribute("aria-activedescendant");
  }

  pressed(event) {
    if (this.list.hidden || composing(event)) return;
    if (event.key === "Enter" && this.complete) return this.close();
    const count = this.offers.length;
    const step = { ArrowDown: 1, ArrowUp: count - 1 }[event.key];
    if (step) this.choose((this.chosen + step) % count);
    else if (event.key === "Escape") this.close();
    else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") this.take(this.chosen);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  take(index) {
    const offer = this.offers[index];
    this.field.setRangeText(offer.value, this.start, this.field.selectionStart, "end");
    this.close();
    this.field.dispatchEvent(new Event("input"));
  }

  close() {
    clearTimeout(this.timer);
    this.list.hidden = true;
    this.choose(-1);
  }
}
