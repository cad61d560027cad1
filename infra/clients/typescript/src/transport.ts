// Requests to the service: bounded in time and in size, whatever it answers.

import type { Bytes } from "./bytes.js";

/** The service did not answer in time, or not with what was asked for. */
export class NoAnswer extends Error {
  /** For how many seconds the service asks to leave it alone. */
  readonly retryAfter: number;

  constructor(message: string, retryAfter = 0) {
    super(message);
    this.retryAfter = retryAfter;
  }
}

/** The response is larger than it may be. The rest was not read. */
export class TooLarge extends NoAnswer {}

/** A response without its content coding. */
export interface Received {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Bytes;
}

const SECONDS = 10;
const ERROR_MAX = 64 * 1024;
const SHOWN_MAX = 200;
const RETRY_AFTER_MAX = 3600;
/** A base at least comes this fast, in bytes per second. */
const BASE_RATE = 256 * 1024;
const REDIRECTS = [301, 302, 303, 307, 308];
const REDIRECTS_MAX = 3;

/** The error that reports a response of another status than was expected. */
export function unexpected({ status, body, headers }: Received): NoAnswer {
  const words = new TextDecoder().decode(body.subarray(0, SHOWN_MAX));
  const after = headers.get("retry-after") ?? "";
  const seconds = /^\d{1,9}$/.test(after) ? Math.min(Number(after), RETRY_AFTER_MAX) : 0;
  return new NoAnswer(`the service answered ${status}: ${words}`, seconds);
}

/** How many seconds before the request a relay had this from the service. */
export function ageOf({ headers }: Received): number {
  const age = headers.get("age") ?? "0";
  if (!/^\d{1,10}$/.test(age)) throw new NoAnswer(`the age of the response is no number of seconds: ${age.slice(0, 20)}`);
  return Number(age);
}

interface Request {
  readonly limit: number;
  readonly seconds?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly redirect?: "manual" | "follow";
}

/** Asks one service. Each method throws `NoAnswer`. */
export class Transport {
  private readonly url: string;
  private readonly authorization: Record<string, string>;
  private readonly running = new Set<AbortController>();
  private isEnded = false;

  constructor(url: string, apiKey: string, allowHttp: boolean) {
    checkAddress(url, allowHttp);
    this.url = url.replace(/\/+$/, "");
    this.authorization = { Authorization: `Bearer ${apiKey}` };
  }

  /** The response to GET `path`. With `etag` it may be 304; the service may wait for `seconds`. */
  get(path: string, limit: number, etag: string | null = null, seconds = 0): Promise<Received> {
    const headers = { ...this.authorization, ...(etag ? { "If-None-Match": etag } : {}) };
    return this.ask(this.url + path, { headers, limit, seconds });
  }

  /** The response to POST `path` of JSON. */
  post(path: string, body: object, limit: number): Promise<Received> {
    const headers = { ...this.authorization, "Content-Type": "application/json" };
    return this.ask(this.url + path, { headers, limit, body: JSON.stringify(body) });
  }

  /** What is at `path`, or where it redirects to. The API key is not sent to the target of a redirect. */
  async getFar(path: string, limit: number): Promise<Bytes> {
    const request = { limit, seconds: limit / BASE_RATE };
    let url = this.url + path, headers = this.authorization;
    for (let left = REDIRECTS_MAX; left >= 0; left -= 1) {
      let found = await this.ask(url, { ...request, headers });
      // A browser does not show where a redirect leads; it follows by itself, without the key elsewhere.
      if (found.status === 0) found = await this.ask(url, { ...request, headers, redirect: "follow" });
      if (found.status === 200) return found.body;
      if (!REDIRECTS.includes(found.status)) throw unexpected(found);
      url = targetOf(url, found);
      headers = {};
    }
    throw new NoAnswer("the service redirects too often");
  }

  /** Ends the requests that are made, and all later ones. */
  end(): void {
    this.isEnded = true;
    for (const each of this.running) each.abort();
  }

  private async ask(url: string, { limit, seconds = 0, headers = {}, body, redirect = "manual" }: Request): Promise<Received> {
    if (this.isEnded) throw new NoAnswer("the client was closed");
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new Error("the response took too long")), (SECONDS + seconds) * 1000);
    this.running.add(abort);
    try {
      const init: RequestInit = { headers, redirect, signal: abort.signal, cache: "no-store" };
      const response = await fetch(url, body === undefined ? init : { ...init, method: "POST", body });
      const isGood = [200, 201].includes(response.status);
      const found = await readBody(response, isGood ? limit : ERROR_MAX);
      return { status: response.status, headers: response.headers, body: found };
    } catch (error) {
      abort.abort();
      if (error instanceof NoAnswer) throw error;
      throw new NoAnswer(wordsOf(error));
    } finally {
      clearTimeout(timer);
      this.running.delete(abort);
    }
  }
}

function wordsOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return [error, cause].filter((each) => each !== undefined).map(String).join(": ").slice(0, SHOWN_MAX);
}

async function readBody(response: Response, limit: number): Promise<Bytes> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    parts.push(next.value);
    size += next.value.length;
    if (size > limit) throw new TooLarge(`the response has more than ${limit} bytes`);
  }
  const body = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}

function targetOf(url: string, { headers }: Received): string {
  const given = headers.get("location") ?? "";
  if (!URL.canParse(given, url)) throw new NoAnswer("the service redirects to no address");
  const target = new URL(given, url);
  if (target.protocol !== "https:" && url.startsWith("https:")) {
    throw new NoAnswer("the service redirects to an address without TLS");
  }
  return target.href;
}

function checkAddress(url: string, allowHttp: boolean): void {
  const found = URL.canParse(url) ? new URL(url) : null;
  if (!found || !["http:", "https:"].includes(found.protocol) || found.search || found.username) {
    throw new TypeError("the address of the service must be such as https://rescind.example.com");
  }
  const isHere = found.hostname === "localhost" || found.hostname === "[::1]" || /^127(\.\d+){3}$/.test(found.hostname);
  if (found.protocol === "http:" && !allowHttp && !isHere) {
    throw new TypeError("without TLS everybody on the way reads the API key; use https, or set allowHttp");
  }
}
