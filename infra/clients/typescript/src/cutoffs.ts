// Subject cutoffs: `svc_wrt_sub-<digest>-<T>` revokes the tokens of a subject that were issued at
// or before T, which has 12 digits (TOKEN-11).

const FORM = /^svc_wrt_sub-[A-Za-z0-9_-]{43}-[0-9]{12}$/;
/** The length of the common prefix of a subject's cutoffs. */
const SUBJECT_END = 56;

/** The cutoffs of each subject as texts, in ascending order. The map is immutable. */
export type Cutoffs = ReadonlyMap<string, readonly string[]>;

const isCutoff = (id: string): boolean => id.startsWith("svc_wrt_sub-") && FORM.test(id);

/** The cutoffs after removing some identifiers and then revoking others. */
export function changed(cutoffs: Cutoffs, revoked: readonly string[], removed: readonly string[] = []): Cutoffs {
  const gone = removed.filter(isCutoff), added = revoked.filter(isCutoff);
  if (!gone.length && !added.length) return cutoffs;
  const subjects = new Map(cutoffs);
  for (const id of gone) {
    const subject = id.slice(0, SUBJECT_END);
    const left = (subjects.get(subject) ?? []).filter((each) => each !== id.slice(SUBJECT_END));
    if (left.length) subjects.set(subject, left);
    else subjects.delete(subject);
  }
  for (const id of added) {
    const subject = id.slice(0, SUBJECT_END);
    subjects.set(subject, [...new Set([...(subjects.get(subject) ?? []), id.slice(SUBJECT_END)])].sort());
  }
  return subjects;
}

/** Whether an identifier is at or before a cutoff of its subject. */
export function hasCutoff(cutoffs: Cutoffs, id: string): boolean {
  const latest = isCutoff(id) ? cutoffs.get(id.slice(0, SUBJECT_END))?.at(-1) : undefined;
  return latest !== undefined && id.slice(SUBJECT_END) <= latest;
}
