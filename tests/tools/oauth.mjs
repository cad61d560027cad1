// Libraries for tokens of others as peers. It runs in `.tools/oauth`, where its packages are:
//
//     node --input-type=module --eval "$(cat ../../tests/tools/oauth.mjs)" make|introspect < request.json
//
// `make` makes JWTs with `jose`, with the key set of their issuer, and a UCAN. `introspect` asks a service
// about tokens with `oauth4webapi`, and prints what it says.

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { issue, link } from "@ipld/dag-ucan";
import { parse } from "@ipld/dag-ucan/did";
import { create } from "@ipld/dag-ucan/signature";
import { SignJWT, exportJWK, generateKeyPair } from "jose";
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

let request = "";
for await (const chunk of process.stdin) request += chunk;
console.log(JSON.stringify(await { make, introspect }[process.argv[1]](JSON.parse(request))));
