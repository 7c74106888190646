// The entries on the page: the server renders them, this puts them in their place.

import { $, $$, parsed } from "./dom.js";
import { getPart } from "./http.js";

const MOST_SHOWN = 500;
const KEPT = 250;

export class Entries {
  constructor(chat, reader, { arrived }) {
    this.url = chat.dataset.entries;
    this.box = $("#entries");
    this.reader = reader;
    this.arrived = arrived;
    this.first = Number(chat.dataset.first);
    this.last = Number(chat.dataset.last);
    this.head = Number(chat.dataset.head);
    // A linked place in the middle of the conversation: what is below is not loaded.
    this.partial = this.last < this.head;
    this.watchTop();
  }

  // Fetch what is new; callers that come meanwhile share the next round.
  catchUp(head = 0) {
    this.head = Math.max(this.head, head);
    this.wanted = true;
    this.running ??= this.fetchAll().finally(() => (this.running = null));
    return this.running;
  }

  async fetchAll() {
    while (this.wanted) {
      this.wanted = false;
      if (this.partial) continue;
      const { html, headers } = await getPart(`${this.url}?after=${this.last}&limit=300`);
      const last = Number(headers.get("X-Last"));
      this.head = Math.max(this.head, Number(headers.get("X-Head")));
      if (last > this.last) {
        this.last = last;
        this.insert(parsed(html));
        this.wanted = last < this.head;
      }
    }
  }

  insert(fragment) {
    const fresh = [...fragment.children];
    const added = fresh.filter((one) => one.matches(".message")).length;
    this.reader.below(() => {
      for (const one of fresh) this.place(one);
      this.arrived(fresh);
      this.trim();
    }, added);
  }

  place(element) {
    const known = element.id && document.getElementById(element.id);
    if (element.matches("[data-card]")) {
      if (known) {
        element.open = known.open && known.dataset.opened !== "live";
        known.replaceWith(element);
      } else this.box.append(element);
      return;
    }
    // A fold that has grown stands at its new end.
    if (element.matches("[data-folded]")) known?.remove();
    else if (known) return;
    this.box.append(element);
    const { rewind, supersedes, seq } = element.dataset;
    if (rewind) this.fold(Number(rewind), Number(seq));
    if (supersedes) this.fold(Number(supersedes) - 1, Number(seq));
  }

  // A retry or an edit puts something else in the place of what came after a message.
  fold(after, before) {
    for (const one of $$("[data-seq]", this.box)) {
      const seq = Number(one.dataset.seq);
      if (seq > after && seq < before) one.remove();
    }
    for (const one of $$("[data-folded]", this.box)) {
      const first = Number(one.dataset.folded);
      if (first > after + 1 && first < before) one.remove();
    }
    for (const end of $$("[data-turn-end]", this.box)) end.remove();
  }

  watchTop() {
    const top = $("#earlier");
    if (!top) return;
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.loadEarlier(), {
      root: this.reader.box,
      rootMargin: "600px 0px 0px 0px",
    }).observe(top);
    top.addEventListener("click", (event) => {
      event.preventDefault();
      this.loadEarlier();
    });
  }

  async loadEarlier() {
    if (this.loading || this.first <= 1) return;
    this.loading = true;
    try {
      const { html, headers } = await getPart(`${this.url}?before=${this.first}`);
      const first = Number(headers.get("X-First"));
      if (!first) return;
      this.first = first;
      const fragment = parsed(html);
      const fresh = [...fragment.children].filter((one) => !one.id || !document.getElementById(one.id));
      this.reader.above(() => {
        this.box.prepend(...fresh);
        this.arrived(fresh, { earlier: true });
        if (first <= 1) $("#earlier").hidden = true;
      });
    } catch {
      // The button stays; another look upwards tries again.
    } finally {
      this.loading = false;
    }
  }

  // Hours of following would fill the page: let the oldest go, they load again.
  trim() {
    const all = this.box.children;
    const top = $("#earlier");
    if (all.length < MOST_SHOWN || !this.reader.following || !top) return;
    while (all.length > KEPT) all[0].remove();
    this.first = Number($("[data-seq]", this.box)?.dataset.seq ?? this.first);
    top.hidden = false;
  }
}
