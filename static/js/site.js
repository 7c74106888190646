// Every page: the palette, the sheet of keys, menus, copying, confirming.

import { $, $$, composing, copy, isTyping, make } from "./lib/dom.js";
import { getJSON } from "./lib/http.js";

function bindConfirmations() {
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
}

function bindMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = $("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    $("summary", menu).focus();
    event.stopImmediatePropagation();
  }, true);
}

function bindCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button?.dataset.copy.startsWith("#")) return;
    copy($(button.dataset.copy).value, () => (button.textContent = "✓"));
  });
}

function ago() {
  const style = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto", style: "narrow" });
  for (const time of $$("time[data-ago]")) {
    const minutes = (new Date(time.dateTime) - Date.now()) / 60000;
    if (minutes < -60 * 24 * 6) continue;
    const [value, unit] = minutes > -0.5 ? [0, "second"] : minutes > -60 ? [minutes, "minute"] : minutes > -1440 ? [minutes / 60, "hour"] : [minutes / 1440, "day"];
    time.textContent = style.format(Math.round(value), unit);
  }
}

class Palette {
  constructor(dialog) {
    this.dialog = dialog;
    this.field = $("input", dialog);
    this.list = $("ul", dialog);
    this.at = 0;
    this.field.addEventListener("input", () => this.show());
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("click", (event) => this.go(event.target.closest("[role=option]")));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  async open() {
    if (this.dialog.open) return this.dialog.close();
    this.field.value = "";
    this.dialog.showModal();
    await (this.loading ??= this.load());
    this.show();
  }

  async load() {
    const url = this.dialog.dataset.url;
    this.known = url ? await getJSON(url).catch(() => null) : null;
    this.known ??= { pages: $$(".rail a").map((link) => ({ label: link.title, url: link.href })), conversations: [] };
  }

  show() {
    if (!this.known) return;
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (one) => words.every((word) => one.label.toLowerCase().includes(word));
    this.list.replaceChildren();
    for (const group of ["conversations", "pages"]) {
      const found = this.known[group].filter(fits).slice(0, 12);
      if (!found.length) continue;
      const title = make("li", "palette-group", this.list.dataset[group]);
      title.setAttribute("role", "presentation");
      this.list.append(title, ...found.map((one, index) => this.option(one, `${group}-${index}`)));
    }
    if (!this.list.children.length) this.list.append(make("li", "palette-group", this.list.dataset.nothing));
    this.choose(0);
  }

  option(one, id) {
    const line = make("li", "", one.label);
    line.setAttribute("role", "option");
    line.id = `palette-${id}`;
    line.dataset.url = one.url;
    return line;
  }

  choose(index) {
    const options = $$("[role=option]", this.list);
    this.at = Math.max(0, Math.min(index, options.length - 1));
    options.forEach((one, place) => one.setAttribute("aria-selected", String(place === this.at)));
    options[this.at]?.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", options[this.at]?.id ?? "");
  }

  pressed(event) {
    if (composing(event)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.choose(this.at + step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.loading.then(() => this.go($$("[role=option]", this.list)[this.at]));
    }
  }

  go(option) {
    if (option) location.assign(option.dataset.url);
  }
}

function bindKeys(palette) {
  const lines = () => $$("#conversation-list a");
  const move = (step) => {
    const all = lines();
    const now = all.findIndex((line) => line === document.activeElement || line.ariaCurrent === "page");
    all[Math.max(0, Math.min(all.length - 1, now + step))]?.focus();
  };
  const keys = {
    "?": () => $("#keys").showModal(),
    "/": () => ($("#list-words") ?? $("input[type=search]"))?.focus(),
    n: () => $("#new-conversation")?.click(),
    c: () => $("#message")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    g: () => $("#jump")?.click(),
    "]": () => $("#side-toggle")?.click(),
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette?.open();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || composing(event)) return;
    if (isTyping(event.target) || $("dialog[open]")) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

const palette = $("#palette") ? new Palette($("#palette")) : null;
bindConfirmations();
bindMenus();
bindCopying();
bindKeys(palette);
ago();
setInterval(ago, 60000);
// On a phone the settings are one strip: begin it at the page that is open.
$(".settings-nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
document.addEventListener("list:shown", ago);
$("#keys")?.addEventListener("click", (event) => event.target.id === "keys" && event.target.close());
setTimeout(() => $$("#toasts > *").forEach((line) => line.remove()), 8000);
