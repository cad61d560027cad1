// A Cloudflare Worker that decides with the client, which it makes while it starts: tests/clients/test_workers.py.

import { AuthorizerClient } from "@rescind/authorizer";
import options from "options.json";

const files = new Map(), events = [];
const state = {
  read: async (name) => files.get(name) ?? null,
  write: async (name, data) => void files.set(name, data),
};
const client = new AuthorizerClient({ ...options, state, onEvent: async (each) => void events.push(each) });

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    try {
      if (pathname === "/poll") await client.poll();
      if (pathname === "/report") await client.report();
      return Response.json({ verdict: client.check(...searchParams.getAll("id")), events: events.splice(0) });
    } catch (error) {
      return Response.json({ error: String(error) });
    }
  },
};
