// Puts clients that leave out a check through the conformance suite: `node left_out.mjs PACKAGE CASES`.
//
// Each statement of the package that only checks something is left out in turn, and each line of the table
// below is replaced. It prints {check: the first case that failed, or null}.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const STATEMENT = /^ *(check|need|rising|checkPassed|checkWitnesses|isBroken|await signed)\(.*\);$/gm;
const FILES = ["cbor", "ed25519", "state", "trust", "wire"];
const REPLACED = [
  ["the form of base64", "bytes", "btoa(binary) !== text", "false"],
  ["the form of an answer", "wire", "Array.isArray(value) ? value.map(read) : refuse", "Array.isArray(value) ? value.map(read) : ((_) => [])"],
  ["hints that are no numbers", "wire", "Number.isFinite(value) ? Math", "true ? Math"],
  ["the order of a map", "cbor", "this.isStrict && last && compare(last, bytes) >= 0", "false"],
  ["members that come twice", "cbor", " || members.has(key)", ""],
  ["keys that are texts", "cbor", "typeof key !== \"string\" || ", ""],
  ["the shortest header", "cbor", "this.isStrict && value < least", "false"],
  ["bytes after the map", "cbor", "reader.at === data.length && ", ""],
  ["the map", "cbor", " && value instanceof Map ? value : malformed()", " ? value : malformed()"],
  ["nesting", "cbor", "depth > DEPTH_MAX", "false"],
  ["tags", "cbor", "kind > 5", "false"],
  ["texts of UTF-8", "bytes", "fatal: true", "fatal: false"],
  ["exact numbers", "cbor", "value > BigInt(NUMBER_MAX) ? value : Number(value)", "Number(value)"],
  ["negative numbers", "cbor", "typeof value === \"number\" && value >= 0", "typeof value === \"number\""],
  ["types", "cbor", "value === undefined || !is(value)", "false"],
  ["the types of elements", "cbor", "Array.isArray(value) && value.every(is)", "Array.isArray(value)"],
  ["the form of times", "cbor", "MOMENT.test(written) ? Date.parse(written) : Number.NaN", "Date.parse(written)"],
  ["cutoffs that are later", "cutoffs", "id.slice(SUBJECT_END) <= latest", "id.slice(SUBJECT_END) === latest"],
  ["cutoffs that were removed", "cutoffs", "each !== id.slice(SUBJECT_END)", "true"],
  ["values that come twice", "cbor", "compare(last, each) < 0", "compare(last, each) <= 0"],
  ["keys of small order", "ed25519", "!SMALL.has(y % P)", "true"],
  ["keys of another size", "ed25519", "key.length !== 32", "key.length === 0"],
  ["keys of small order with another sign", "ed25519", " & (2n ** 255n - 1n)", ""],
  ["keys of small order above p", "ed25519", "y % P", "y"],
  ["the signature", "ed25519", "return crypto.subtle.verify(", "return true || crypto.subtle.verify("],
  ["the expiry to the second", "state", "now < head.expiresAt", "now <= head.expiresAt"],
  ["the saved position", "state", "[terms.savedPosition, state?.head ?? null]", "[null, state?.head ?? null]"],
  ["what is held", "state", "[terms.savedPosition, state?.head ?? null]", "[terms.savedPosition]"],
  ["the reach of an answer", "state", "count > entries.length ? null", "false ? null"],
  ["breaks", "state", "return breaks.length > 0", "return false"],
  ["a missing entry", "state", "passed) ?? refuse(\"gap\")", "passed) ?? []"],
  ["removed identifiers", "state", "added.delete(id);", ""],
  ["removed identifiers of the base", "state", "removed.add(id);", ""],
  ["identifiers that are revoked again", "state", "removed.delete(id);", ""],
  ["revoked identifiers", "state", "if (!this.whole.has(id))\n                    added.add(id);", ""],
  ["the prefix of heads", "wire", "concat(utf8(\"rescind-feed-head-v1\\n\"), payload)", "payload"],
  ["the pin", "trust", "next.roots.pin === pin ? signed", "true ? signed"],
  ["who signs the first document", "trust", "next.roots.pin === pin ? signed(next, next.roots)", "next.roots.pin === pin ? next"],
  ["the roots of a document", "trust", "return signed(next, next.roots);", "return next;"],
  ["the threshold", "trust", "let left = threshold", "let left = 1"],
  ["no document of the pin", "trust", "return refuse(\"root\");\n    check(last", "return belief;\n    check(last"],
  ["the use of a key", "trust", "uses.includes(use)", "true"],
  ["no signer of a head", "trust", "&& listSigners(belief).includes(signer)", ""],
  ["the parent of a key", "trust", "key.parent === signer.id && ", ""],
  ["who may be a parent", "trust", "[\"root\", \"issuer\"].includes(signer.type)", "true"],
  ["the version before", "trust", "key.version - 1 === signer.version", "true"],
  ["the type of the version before", "trust", "key.type === signer.type", "true"],
  ["the parent of the version before", "trust", " && key.parent === signer.parent", ""],
  ["what a dropped signer signed", "conformance", "this.isTrusted = false;\n            }", "}"],
  ["the end of the document", "conformance", "belief.held?.expiresAt ?? -Infinity", "Infinity"],
  ["staleness", "conformance", "state?.head.expiresAt ?? -Infinity", "Infinity"],
  ["the age of an answer", "conformance", "seconds - (wholeSeconds(age) ?? refuse(\"malformed\"))", "seconds"],
  ["an older answer", "conformance", "Math.max(this.end, end)", "end"],
  ["the form of an age", "conformance", "wholeSeconds(age) ?? refuse(\"malformed\")", "wholeSeconds(age) ?? 0"],
  ["identifiers of a chain", "conformance", "check(areWarrantIds(ids), \"malformed\");", ""],
  ["an empty chain", "wire", "ids.length > 0 && ids.every((id)", "ids.every((id)"],
  ["the form of an identifier", "wire", "typeof id === \"string\" && WARRANT_ID.test(id)", "typeof id === \"string\""],
  ["identifiers of a base", "wire", "reading(() => checkIds(ids, \"RevokedIDs\"));", ""],
  ["hints that are not finite", "wire", "Number.isFinite(value) ? Math", "typeof value === \"number\" ? Math"],
  ["staleness without news", "conformance", "Math.min(this.end, ", "Math.min("],
  ["revoked although stale", "conformance", "state && ids.some", "this.isTrusted && Date.parse(now) < this.end && ids.some"],
];

const [, , dist, casesFile] = process.argv, cases = JSON.parse(readFileSync(casesFile, "utf8"));
const sourceOf = (file) => readFileSync(join(dist, `${file}.js`), "utf8");

function* variants() {
  for (const file of FILES) {
    const source = sourceOf(file);
    for (const { 0: line, index } of source.matchAll(STATEMENT)) {
      yield [`${file}: ${line.trim()}`, file, source.slice(0, index) + source.slice(index + line.length)];
    }
  }
  for (const [name, file, line, instead] of REPLACED) {
    const parts = sourceOf(file).split(line);
    if (parts.length !== 2) throw new Error(`${name}: ${parts.length - 1} lines have ${line}`);
    yield [name, file, parts.join(instead)];
  }
}

function requestOf({ request, spaces = 0 }) {
  const [[name, given]] = Object.entries(request), last = name === "poll" ? "answer" : "response";
  return spaces ? { [name]: { ...given, [last]: given[last] + " ".repeat(spaces) } } : request;
}

async function firstFailed({ Session }) {
  for (const { name, steps } of cases) {
    const session = new Session();
    for (const step of steps) {
      const answer = await session.answer(requestOf(step)).catch((error) => String(error));
      if (JSON.stringify(answer) !== JSON.stringify(step.expected)) return name;
    }
  }
  return null;
}

const found = {};
let number = 0;
for (const [name, file, source] of variants()) {
  const folder = join(dist, `../left-out-${(number += 1)}`);
  cpSync(dist, folder, { recursive: true });
  writeFileSync(join(folder, `${file}.js`), source);
  found[`${number} ${name}`] = await firstFailed(await import(pathToFileURL(join(folder, "conformance.js"))));
}
console.log(JSON.stringify(found));
