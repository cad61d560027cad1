// A second encoder of the formats of docs/spec/trust.md, written from that page without any package.
//
//     node tests/tools/trust.mjs < request.json > answer.json
//
// The request has members of each payload, in which {"bytes": hex} is a byte string, and documents
// that Python made. The answer has the bytes of each payload with a signature, the pin of roots, and
// of each document which roots signed it.

import { createHash, createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const PREFIXES = {
  trust: "rescind-trust-v1\n",
  registration: "rescind-register-v1\n",
  report: "rescind-report-v1\n",
  journal: "rescind-journal-v1\n",
};

const sha256 = (data) => createHash("sha256").update(data).digest();
const hex = (text) => Buffer.from(text, "hex");

function header(kind, size) {
  if (size < 24) return Buffer.from([(kind << 5) | size]);
  const width = [1, 2, 4, 8].find((bytes) => BigInt(size) < 256n ** BigInt(bytes));
  const digits = BigInt(size).toString(16).padStart(2 * width, "0");
  return Buffer.concat([Buffer.from([(kind << 5) | (24 + Math.log2(width))]), hex(digits)]);
}

function encode(value) {
  if (value === null) return hex("f6");
  if (typeof value === "boolean") return hex(value ? "f5" : "f4");
  if (typeof value === "number") return header(0, value);
  if (typeof value === "string") return Buffer.concat([header(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Array.isArray(value)) return Buffer.concat([header(4, value.length), ...value.map(encode)]);
  if (typeof value.bytes === "string") return Buffer.concat([header(2, value.bytes.length / 2), hex(value.bytes)]);
  const members = Object.entries(value).map((each) => each.map(encode));
  members.sort(([one], [two]) => Buffer.compare(one, two));
  return Buffer.concat([header(5, members.length), ...members.flat()]);
}

const signed = (kind, payload) =>
  Buffer.concat([Buffer.from(PREFIXES[kind]), kind === "trust" ? sha256(payload) : payload]);

function privateKey(seed) {
  const der = Buffer.concat([hex("302e020100300506032b657004220420"), hex(seed)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function publicKey(raw) {
  const x = Buffer.from(raw).toString("base64url");
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}

const request = JSON.parse(readFileSync(0, "utf8"));
const made = Object.entries(request.payloads).map(([name, members]) => {
  const kind = name.split("/")[0], payload = encode(members);
  const signature = PREFIXES[kind] && sign(null, signed(kind, payload), privateKey(request.seed)).toString("hex");
  return [name, { payload: payload.toString("hex"), signature }];
});
const verified = request.documents.map(({ Payload, Signatures, roots }) => {
  const covered = signed("trust", Buffer.from(Payload, "base64"));
  return Signatures.filter(({ Key, Signature }) =>
    roots.includes(Key) &&
    verify(null, covered, publicKey(Buffer.from(Key, "base64")), Buffer.from(Signature, "base64"))).length;
});
const pin = sha256(Buffer.concat([Buffer.from("rescind-roots-v1\n"), encode(request.roots)])).toString("hex");
console.log(JSON.stringify({ made: Object.fromEntries(made), verified, pin }));
