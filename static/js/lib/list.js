// The column of conversations: search while typing, fresh without a reload.

import { $, $$, parsed } from "./dom.js";
import { getPart } from "./http.js";

export class List {
  constructor() {
    this.box = $("#conversation-list");
    this.field = $("#list-words");
    this.show = $(".filters [aria-current]")?.dataset.show ?? "all";
    if (!this.box) return;
    this.field.addEventListener("input", () => this.soon(150));
    $(".filters").addEventListener("click", (event) => this.filter(event));
    setInterval(() => document.hidden || this.refresh(), 15000);
    addEventListener("focus", () => this.soon(0));
  }

  filter(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.show = link.dataset.show;
    for (const one of $$(".filters a")) one.ariaCurrent = one === link ? "true" : null;
    this.refresh();
  }

  soon(delay = 400) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), delay);
  }

  async refresh() {
    if (!this.box) return;
    const query = new URLSearchParams({ part: "1", show: this.show, q: this.field.value });
    const now = document.querySelector("[data-conversation][data-chat]")?.dataset.conversation;
    try {
      const { html } = await getPart(`${this.box.dataset.url}?${query}`);
      if (this.box.contains(document.activeElement)) return;
      const fresh = parsed(html);
      for (const line of fresh.querySelectorAll(`[data-conversation="${now}"]`)) {
        line.ariaCurrent = "page";
        line.classList.remove("is-new");
        line.querySelector(".count")?.remove();
      }
      this.box.replaceChildren(fresh);
      document.dispatchEvent(new Event("list:shown"));
    } catch {
      // The next refresh tries again.
    }
  }
}
