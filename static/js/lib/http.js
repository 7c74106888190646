// Requests to this site. A refusal carries the server's sentence; anything else that
// goes wrong on the way may be tried again.

import { $ } from "./dom.js";

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export class Unreachable extends Error {}

// Milliseconds. A read is asked again soon; a write must not be given up early.
const READ = 8000;
const WRITE = 20000;

const token = () => $("input[name=csrfmiddlewaretoken]")?.value ?? "";

async function ask(url, options, timeout) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", signal: AbortSignal.timeout(timeout), ...options });
  } catch (error) {
    throw new Unreachable(error.message);
  }
  if (response.ok) return response;
  if (response.status >= 500) throw new Unreachable(`HTTP ${response.status}`);
  let message = `HTTP ${response.status}`;
  try {
    message = (await response.clone().json()).error ?? message;
  } catch {
    // Not JSON: the status has to do.
  }
  throw new Refused(message, response.status);
}

export async function getPart(url) {
  const response = await ask(url, { headers: { Accept: "text/html" } }, READ);
  return { html: await response.text(), headers: response.headers };
}

export async function getJSON(url) {
  const response = await ask(url, { headers: { Accept: "application/json" } }, READ);
  return response.json();
}

export async function post(url, fields, timeout = WRITE) {
  const body = fields instanceof FormData ? fields : new FormData();
  if (!(fields instanceof FormData)) for (const [name, value] of Object.entries(fields)) body.set(name, value);
  const headers = { Accept: "application/json", "X-CSRFToken": token() };
  const response = await ask(url, { method: "POST", body, headers }, timeout);
  return response.status === 204 ? {} : response.json();
}
