/** Reasons for a refusal of trust documents (docs/spec: TRUST-12, TRUST-13), with advice. */

const REPORT = 'Contact the operator of the service: it never sends such a response.'

/** @typedef {import('../vendor/rescind-trust.js').Reason} Reason */

/**
 * Fault and advice. The other reasons do not apply to trust documents.
 * @type {Partial<Record<Reason, [string, string]>> & {malformed: [string, string]}}
 */
export const REASONS = {
  too_large: ['The response is larger than trust documents may be.', REPORT],
  malformed: ['The response does not have the form of trust documents.', REPORT],
  tenant: [
    'A document belongs to another tenant.',
    'Sign in with an API key of the right tenant. If it is the right one, contact the operator of the service.',
  ],
  root: [
    'Too few of the root keys that your pin identifies signed the documents.',
    'Compare the pin with the one that you received, and with the output of rescind trust show. ' +
      'If it is right, do not trust this service, and contact the owners of the root keys.',
  ],
  equivocation: [
    'The root keys signed two documents of one version.',
    'Trust neither. Contact the owners of the root keys immediately: ' +
      'a root key was stolen, or the service was restored from a backup.',
  ],
  rollback: [
    'This browser has seen a newer document.',
    'Verify again in a minute. If the check fails again, the service was restored from a backup, ' +
      'or someone impersonates it: contact the operator of the service.',
  ],
  lifetime: [
    'The document is valid for more than 400 days, or has no lifetime.',
    'Ask the owners of the root keys to sign another document.',
  ],
  future: [
    'The document was issued more than 30 seconds in the future.',
    'Check the clock of this computer. If it is right, the clock of the service is wrong.',
  ],
  trust_expired: [
    'The document has expired.',
    'Check the clock of this computer. If it is right, the root keys must sign a new document: ' +
      'rescind trust draft, sign and publish.',
  ],
}
