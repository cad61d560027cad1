// Requests to the service, bounded in time and size for every response.

import { utf8, type Bytes } from "./bytes.js";

/** The service sent no response in time, or an unexpected one. */
export class NoAnswer extends Error {
  /** The seconds to pause, as the service requests. */
  readonly retryAfter: number;

  constructor(message: string, retryAfter = 0) {
    super(printable(message));
    this.retryAfter = retryAfter;
  }
}

/** The response exceeds its size limit. The rest was not read. */
export class TooLarge extends NoAnswer {}

/** A response without its content coding. */
export interface Received {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Bytes;
}

/** The time limit of a response in seconds, in addition to the wait of a poll. */
export const PATIENCE = 10;
const ERROR_MAX = 64 * 1024;
const SHOWN_MAX = 200;
/** The maximum number of seconds. A larger number is clamped. */
const SECONDS_MAX = 2 ** 31;
/** The minimum rate of a base, in bytes per second. */
const BASE_RATE = 256 * 1024;
const REDIRECTS = [301, 302, 303, 307, 308];
const REDIRECTS_MAX = 3;
/** Some runtimes without an HTTP cache reject the option. */
const CACHE: RequestInit = "cache" in Request.prototype ? { cache: "no-store" } : {};

/** The error about a response with an unexpected status. */
export function unexpected({ status, body, headers }: Received): NoAnswer {
  const words = new TextDecoder().decode(body.subarray(0, SHOWN_MAX));
  return new NoAnswer(`the service answered ${status}: ${words}`, wholeSeconds(headers.get("retry-after") ?? "") ?? 0);
}

/** How many seconds before the request a relay received this from the service. */
export function ageOf({ headers }: Pick<Received, "headers">): number {
  const age = headers.get("age") ?? "0", seconds = wholeSeconds(age);
  if (seconds === null) throw new NoAnswer("the Age of the response is not a number of seconds");
  return seconds;
}

/**
 * The number of seconds in a header, which spaces and tabs may surround, or null if it is invalid.
 */
export function wholeSeconds(text: string): number | null {
  const digits = /^[ \t]*([0-9]+)[ \t]*$/.exec(text);
  return digits && Math.min(Number(digits[1]), SECONDS_MAX);
}

/** The beginning of a text as one line without control characters. */
export function printable(text: string): string {
  const escaped = (each: string): string => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.slice(0, SHOWN_MAX).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escaped).slice(0, SHOWN_MAX);
}

interface Asked {
  readonly limit: number;
  readonly seconds?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly redirect?: "manual" | "follow";
}

/** Sends requests to one service. Each method throws `NoAnswer`. */
export class Transport {
  private readonly url: string;
  /** Private at run time too, because consoles print all other fields. */
  readonly #key: string;
  private readonly running = new Set<AbortController>();
  private isEnded = false;

  constructor(url: string, apiKey: string, allowHttp: boolean) {
    checkAddress(url, allowHttp);
    this.url = url.replace(/\/+$/, "");
    // Files and editors add white space and byte order marks, which `trim` removes.
    this.#key = apiKey.trim();
    if (!/^[!-~]+$/.test(this.#key)) {
      throw new TypeError("the API key is empty or contains an invalid character: pass the key that `rescind api-keys create` printed");
    }
  }

  private get authorization(): Record<string, string> {
    return { Authorization: `Bearer ${this.#key}` };
  }

  /** Replaces the key in text of a peer, which may repeat the request. */
  private redact(body: Bytes): Bytes {
    const text = new TextDecoder().decode(body);
    return text.includes(this.#key) ? utf8(text.replaceAll(this.#key, "…")) : body;
  }

  /**
   * The response to GET `path` within `seconds`. With `etag`, it may be 304. `isLast` closes the
   * connection afterward, if fetch permits it. Browsers and Workers manage connections themselves.
   */
  get(path: string, limit: number, etag: string | null = null, seconds = PATIENCE, isLast = false): Promise<Received> {
    const headers = { ...this.authorization, ...(etag && { "If-None-Match": etag }), ...(isLast && { Connection: "close" }) };
    return this.ask(this.url + path, { headers, limit, seconds });
  }

  /** The response to POST `path` with JSON. */
  post(path: string, body: object, limit: number): Promise<Received> {
    const headers = { ...this.authorization, "Content-Type": "application/json" };
    return this.ask(this.url + path, { headers, limit, body: JSON.stringify(body) });
  }

  /**
   * The resource at `path`, following redirects. The API key is not sent to the target of a
   * redirect.
   */
  async getFar(path: string, limit: number): Promise<Bytes> {
    const request = { limit, seconds: PATIENCE + limit / BASE_RATE };
    let url = this.url + path, headers = this.authorization;
    for (let left = REDIRECTS_MAX; left >= 0; left -= 1) {
      let response = await this.ask(url, { ...request, headers });
      // A browser hides the target of a redirect. It follows the redirect without sending the key
      // elsewhere.
      if (response.status === 0) response = await this.ask(url, { ...request, headers, redirect: "follow" });
      if (response.status === 200) return response.body;
      if (!REDIRECTS.includes(response.status)) throw unexpected(response);
      url = targetOf(url, response);
      headers = {};
    }
    throw new NoAnswer("the service redirects too often");
  }

  /** Aborts the current requests, and prevents later ones. */
  end(): void {
    this.isEnded = true;
    for (const each of this.running) each.abort();
  }

  private async ask(url: string, { limit, seconds = PATIENCE, headers = {}, body, redirect = "manual" }: Asked): Promise<Received> {
    if (this.isEnded) throw new NoAnswer("the client was closed");
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), seconds * 1000);
    this.running.add(abort);
    try {
      const init: RequestInit = { headers, redirect, signal: abort.signal, ...CACHE };
      const response = await fetch(url, body === undefined ? init : { ...init, method: "POST", body });
      // Some HTTP parsers do not treat a name with a trailing space as the same header.
      for (const [name] of response.headers) if (/\s/.test(name)) throw new NoAnswer("the service sent a malformed response");
      const isGood = [200, 201].includes(response.status);
      const content = await readBody(response, isGood ? limit : ERROR_MAX);
      const shown = isGood && body === undefined ? content : this.redact(content);
      return { status: response.status, headers: response.headers, body: shown };
    } catch (error) {
      const isLate = abort.signal.aborted && !this.isEnded;
      abort.abort();
      if (error instanceof NoAnswer) throw error;
      throw new NoAnswer(isLate ? "the service did not respond in time" : `the service cannot be reached: ${codeOf(error)}`);
    } finally {
      clearTimeout(timer);
      this.running.delete(abort);
    }
  }
}

/**
 * The code of a fetch error. Its message must not be logged, because fetch received the API key.
 */
function codeOf(error: unknown): string {
  const { name, code, cause } = error as Error & { code?: unknown; cause?: { code?: unknown } | null };
  return [cause?.code, code, name].find((each): each is string => typeof each === "string" && /^\w+$/.test(each)) ?? "unknown";
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
  const location = headers.get("location") ?? "";
  if (!URL.canParse(location, url)) throw new NoAnswer("the redirect leads to no address");
  const target = new URL(location, url);
  if (target.protocol !== "https:" && url.startsWith("https:")) {
    throw new NoAnswer("the redirect leads to an address without TLS");
  }
  return target.href;
}

function checkAddress(url: string, allowHttp: boolean): void {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (!parsed || !["http:", "https:"].includes(parsed.protocol) || parsed.search || parsed.username) {
    throw new TypeError("the address of the service must be a URL such as https://rescind.example.com");
  }
  const isHere = parsed.hostname === "localhost" || parsed.hostname === "[::1]" || /^127(\.\d+){3}$/.test(parsed.hostname);
  if (parsed.protocol === "http:" && !allowHttp && !isHere) {
    throw new TypeError("without TLS, anyone on the network path can read the API key: use https, or set allowHttp");
  }
}
