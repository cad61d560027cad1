/** Reasons for a refusal of trust documents (docs/spec: TRUST-12, TRUST-13), with advice. */

const REPORT = 'Tell the people who run the service: it never answers this.'

/** @typedef {import('../vendor/rescind-trust.js').Reason} Reason */

/**
 * Fault and advice. The other reasons do not apply to trust documents.
 * @type {Partial<Record<Reason, [string, string]>> & {malformed: [string, string]}}
 */
export const REASONS = {
  too_large: ['The answer is larger than trust documents may be.', REPORT],
  malformed: ['The answer has another form than trust documents.', REPORT],
  tenant: [
    'A document is of another tenant.',
    'Sign in with an API key of the right tenant. If it is the right one, tell the people who run the service.',
  ],
  root: [
    'Not enough of the roots that your pin names signed the documents.',
    'Compare the pin with the one that you were given, and with that of the roots: rescind trust show. ' +
      'If it is right, believe nothing that this service says, and tell the people who keep the roots.',
  ],
  equivocation: [
    'The roots signed two documents of one version.',
    'Believe neither. Tell the people who keep the roots at once: ' +
      'a root was stolen, or the service was restored from a backup.',
  ],
  rollback: [
    'This browser has seen a newer document.',
    'Verify again in a minute. If it stays so, the service was restored from a backup, ' +
      'or somebody answers in its place: tell the people who run it.',
  ],
  lifetime: [
    'The document is valid for more than 400 days, or for no time.',
    'Tell the people who keep the roots: they have to sign another one.',
  ],
  future: [
    'The document was issued more than 30 seconds after now.',
    'Check the clock of this computer. If it is right, the clock of the service is wrong.',
  ],
  trust_expired: [
    'The document has expired.',
    'Check the clock of this computer. If it is right, the roots have to sign a new document: ' +
      'rescind trust draft, sign and publish.',
  ],
}
