// Small helpers that every page uses. Text is only ever set with textContent.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

export const texts = JSON.parse($("#texts")?.textContent ?? "{}");

export function say(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// A fragment that this site's server rendered (and escaped), as elements.
export function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

export function isTyping(target) {
  return target.closest?.("input:not([type=checkbox],[type=radio]), textarea, select, [contenteditable]") != null;
}

export function composing(event) {
  return event.isComposing || event.keyCode === 229;
}

export function toast(text, kind = "") {
  const box = $("#toasts");
  const line = make("p", `toast toast-${kind}`, text);
  box.append(line);
  setTimeout(() => line.remove(), 6000);
}

export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", "visually-hidden");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  done?.();
}

export function stored(key, value) {
  try {
    if (value === undefined) return localStorage.getItem(key) ?? "";
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // Private windows may refuse storage; the page works without it.
  }
  return value ?? "";
}
