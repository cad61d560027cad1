// A certified OpenID provider over TLS: node provider.mjs PORT ISSUER CERTIFICATE REDIRECT KID…
// In LOGOUT_URI is where it sends logout tokens, if anywhere. It signs with the last key of the named ones, and publishes all of them. Anybody may sign in.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:https";
import { pathToFileURL } from "node:url";

const [port, issuer, certificate, redirect, ...kids] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/.tools/oidc/package.json`);
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const keys = kids.map((kid) => ({
  ...generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  kid,
  alg: "ES256",
  use: "sig",
}));
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "console",
      client_secret: "a secret: with + and %",
      redirect_uris: [redirect],
      id_token_signed_response_alg: "ES256",
      ...(process.env.LOGOUT_URI && {
        backchannel_logout_uri: process.env.LOGOUT_URI,
        backchannel_logout_session_required: process.env.LOGOUT_SID === "yes",
      }),
    },
    {
      client_id: "cli",
      token_endpoint_auth_method: "none",
      application_type: "native",
      // With any port (RFC 8252).
      redirect_uris: ["http://127.0.0.1/"],
      grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
      id_token_signed_response_alg: "ES256",
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of the tests"] },
  enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@acme.example`, email_verified: true, name: "Ann" }),
  }),
  // The service listens on this machine, to which the provider by default sends nothing.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  // The provider signs with the first key that fits.
  jwks: { keys: keys.reverse() },
  features: {
    backchannelLogout: { enabled: true },
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
  },
});
// Any address below the named one is registered: the service chooses the last part of its own.
const { redirectUriAllowed } = provider.Client.prototype;
provider.Client.prototype.redirectUriAllowed = function allowed(uri) {
  return redirectUriAllowed.call(this, uri) || uri.startsWith(redirect);
};
provider.on("backchannel.error", (_, error) => console.error(error));
const tls = readFileSync(certificate);
createServer({ cert: tls, key: tls }, provider.callback()).listen(Number(port), "127.0.0.1");
