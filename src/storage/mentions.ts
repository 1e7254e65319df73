/** How an erased person is removed from texts that mention them, in every engine. */

export interface ErasedPerson {
  user: string
  /** What stands for the user in the audit log. */
  hash: string
  /** Finds the user's id and names in a subject. */
  mentions: RegExp
}

/** Returns a pattern that finds the id and the names of a user, each as a word of its own. */
export const patternOf = (words: readonly string[]): RegExp =>
  new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.map(RegExp.escape).join('|')})(?![\\p{L}\\p{N}])`, 'giu')

/** Puts the hash in place of the user in the subject of a line of the audit log. Returns another subject as it is. */
export function eraseFromSubject(
  subject: string,
  { hash, mentions }: Pick<ErasedPerson, 'hash' | 'mentions'>,
): string {
  const normal = subject.normalize('NFC')
  const erased = normal.replace(mentions, hash)
  return erased === normal ? subject : erased
}

/**
 * Erases the user from the data of an event: from the subject of a line of the audit log, and as the person who
 * logged an account in.
 */
export function eraseFromData(data: string, person: ErasedPerson): string {
  const { user_id, subject, ...rest } = JSON.parse(data) as { user_id?: string; subject?: string }
  const erased = subject === undefined ? undefined : eraseFromSubject(subject, person)
  if (user_id !== person.user && erased === subject) return data
  return JSON.stringify({
    ...rest,
    subject: erased,
    user_id: user_id === person.user ? undefined : user_id,
  })
}
