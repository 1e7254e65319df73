/**
 * Types of the arguments and results of the nine tools as methods, derived from the definitions of the tools.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { CallerInput } from '../operations/schema.ts'
import type { verbs } from '../operations/tools.ts'

type Verbs = typeof verbs
/** Same type, resolved to a plain object so that editors display its fields. */
type Flattened<T> = T extends object ? { [K in keyof T]: T[K] } : T
type InputOf<T extends { input: TSchema }> = Flattened<CallerInput<T['input']>>

export type RecvInput = InputOf<Verbs['recv']>
export type SendInput = InputOf<Verbs['send']>
export type DownloadInput = InputOf<Verbs['download']>
export type HistoryInput = InputOf<Verbs['history']>
export type LoginInput = InputOf<Verbs['login']>
export type LogoutInput = InputOf<Verbs['logout']>
export type RenameSessionInput = InputOf<Verbs['renameSession']>
export type SetDefaultInput = InputOf<Verbs['setDefault']>

/** A file that `download` wrote. */
export type Downloaded = Static<Verbs['download']['output']>
/** A page of the message log, newest first. */
export type HistoryPage = Static<Verbs['history']['output']>
export type LogoutResult = Static<Verbs['logout']['output']>
export type RenameSessionResult = Static<Verbs['renameSession']['output']>
export type SetDefaultResult = Static<Verbs['setDefault']['output']>
