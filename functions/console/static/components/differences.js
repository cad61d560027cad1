/** Formats the details of approvals and audit entries, with each field that a change modifies. */

/**
 * Return rows of facts: the details, then the old and new values of each changed field.
 * @param {Record<string, any>} details
 * @returns {[string, string][]}
 */
export function detailRows({ changes = {}, ...details }) {
  const whole = Object.entries(details).filter(([, value]) => value !== undefined)
  const changed = /** @type {[string, {old: unknown, new: unknown}][]} */ (Object.entries(changes))
  return [
    ...whole.map(([name, value]) => /** @type {[string, string]} */ ([name, textOf(value)])),
    ...changed.map(
      ([name, value]) => /** @type {[string, string]} */ ([name, `${textOf(value.old)} → ${textOf(value.new)}`]),
    ),
  ]
}

/** @param {unknown} value */
function textOf(value) {
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.join(', ') || 'none'
  return value === null ? 'none' : typeof value === 'string' ? value : JSON.stringify(value)
}
