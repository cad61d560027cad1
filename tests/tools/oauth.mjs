// Libraries for tokens of others as peers. It runs in `.tools/oauth`, where its packages are:
//
//     node --input-type=module --eval "$(cat ../../tests/tools/oauth.mjs)" make|introspect|status|holds < request.json
//
// `make` makes JWTs with `jose`, with the key set of their issuer, and a UCAN. `introspect` asks a service
// about tokens with `oauth4webapi`, and prints what it says. `status` reads entries of a status list with two
// libraries, after `jose` has verified it. `holds` runs the lines of a page that verify credentials.

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { issue, link } from "@ipld/dag-ucan";
import { parse } from "@ipld/dag-ucan/did";
import { create } from "@ipld/dag-ucan/signature";
import * as owf from "@owf/token-status-list";
import * as sdjwt from "@sd-jwt/jwt-status-list";
import { SignJWT, createRemoteJWKSet, exportJWK, generateKeyPair, jwtVerify } from "jose";
import { base58btc } from "multiformats/bases/base58";
import * as oauth from "oauth4webapi";

async function make({ issuer, audience, jtis }) {
  const keys = [], tokens = [];
  for (const alg of ["ES256", "EdDSA", "RS256"]) {
    const pair = await generateKeyPair(alg, { extractable: true });
    keys.push({ ...(await exportJWK(pair.publicKey)), kid: alg, alg });
    for (const jti of jtis) {
      const claims = new SignJWT({ scope: "read" }).setProtectedHeader({ alg, kid: alg }).setIssuer(issuer)
        .setAudience(audience).setSubject("ann").setJti(`${alg}-${jti}`).setIssuedAt();
      tokens.push(await claims.setExpirationTime(jti === "expired" ? "-5m" : "10m").sign(pair.privateKey));
    }
  }
  return { keys, tokens, ucan: await ucan() };
}

async function ucan() {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  const did = parse(`did:key:${base58btc.encode(Uint8Array.from([0xed, 0x01, ...raw]))}`);
  const key = createPrivateKey(privateKey.export({ format: "pem", type: "pkcs8" }));
  const signer = {
    did: () => did.did(), signatureCode: 0xd0ed, signatureAlgorithm: "EdDSA",
    sign: async (bytes) => create(0xd0ed, new Uint8Array(sign(null, bytes, key))),
  };
  const made = await issue({ issuer: signer, audience: did, capabilities: [{ can: "file/read", with: did.did() }] });
  return (await link(made)).toString();
}

async function introspect({ url, secret, tokens }) {
  const server = { issuer: "https://rescind.example", introspection_endpoint: url };
  const client = { client_id: "gateway" };
  const said = [];
  for (const token of tokens) {
    const options = { [oauth.allowInsecureRequests]: true };
    const answer = await oauth.introspectionRequest(server, client, oauth.ClientSecretBasic(secret), token, options);
    try {
      said.push(await oauth.processIntrospectionResponse(server, client, answer));
    } catch (error) {
      said.push({ error: error.error ?? error.code, status: answer.status });
    }
  }
  return said;
}

async function status({ uri, keys, indexes, now }) {
  const answer = await fetch(uri, { headers: { accept: "application/statuslist+jwt" } });
  const list = await answer.text();
  const options = { subject: uri, typ: "statuslist+jwt", algorithms: ["EdDSA"], requiredClaims: ["exp", "ttl"] };
  if (now) options.currentDate = new Date(now * 1000);
  try {
    await jwtVerify(list, createRemoteJWKSet(new URL(keys)), options);
  } catch (error) {
    return { refused: error.code };
  }
  const [one, other] = [sdjwt, owf].map((library) => library.getListFromStatusListJWT(list));
  return { list, sdjwt: indexes.map((each) => one.getStatus(each)), owf: indexes.map((each) => other.getStatus(each)) };
}

async function holds({ lines, claims, keys }) {
  process.env.STATUS_KEYS = keys;
  const pair = await generateKeyPair("ES256");
  const credential = await new SignJWT(claims).setProtectedHeader({ alg: "ES256", typ: "dc+sd-jwt" }).sign(pair.privateKey);
  const body = lines.replace(/^import .*$/gm, "") + "\nreturn holds(credential)";
  const names = { ...sdjwt, createRemoteJWKSet, jwtVerify, credential };
  const run = new (async () => {}).constructor(...Object.keys(names), body);
  try {
    return await run(...Object.values(names));
  } catch (error) {
    return String(error);
  }
}

let request = "";
for await (const chunk of process.stdin) request += chunk;
console.log(JSON.stringify(await { make, introspect, status, holds }[process.argv[1]](JSON.parse(request))));
