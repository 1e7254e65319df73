/** Names of topics. */
import { badArgument } from './error.ts'
import { firstSegments } from './paths.ts'

/** One letter, mark, digit, "-" or "_", of any script. What nobody sees is none of them. */
export const topicLetter = String.raw`(?:(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{M}\p{N}_-])`
export const topicForm: RegExp = new RegExp(`^${topicLetter}{1,64}$`, 'u')

/** Returns a name in the form in which it is stored: the same letters may be written with other code points. */
export const normalizeTopicName = (name: string): string => name.normalize('NFC')

/** Reads the name of a new topic. @throws SvcError `invalid_arguments` */
export function readTopicName(typed: string, field: string): string {
  const name = normalizeTopicName(typed)
  if (!topicForm.test(name))
    throw badArgument(field, 'expected 1 to 64 letters of any script, digits, "-" and "_"')
  if (firstSegments.includes(name.toLowerCase()))
    throw badArgument(field, 'svc itself has an address of this name')
  return name
}
