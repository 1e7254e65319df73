/** Names of topics. */
import { firstSegments } from './paths.ts'

/** One letter, mark, digit, "-" or "_", of any script. What nobody sees is none of them. */
export const topicLetter = String.raw`(?:(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{M}\p{N}_-])`
export const topicForm: RegExp = new RegExp(`^${topicLetter}{1,64}$`, 'u')

/** Returns a name in the form in which it is stored: the same letters may be written with other code points. */
export const normalizeTopicName = (name: string): string => name.normalize('NFC')

/** Whether svc itself has an address of this name. */
export const isTaken = (name: string): boolean => firstSegments.includes(name.toLowerCase())
