/** What an installed service was told: read off its definition. */

import { Command } from 'commander'
import { type Config, type Flags, readConfig } from '../config.ts'
import type { ServiceManager } from '../service/plan.ts'
import { addConfigOptions, quiet } from './command.ts'

/** As what it was installed. */
export interface ServedAs {
  readonly program: string
  readonly config: Config
}

/** Undefined for what is no definition of svc's, or of one that knew other options. */
export function servedAs(manager: ServiceManager, text: string): ServedAs | undefined {
  const words = manager.commandOf(text)
  const at = words?.indexOf('openapi') ?? -1
  if (!words || at < 0) return undefined
  const command = addConfigOptions(quiet(new Command()), 'openapi')
  try {
    command.parse(words.slice(at + 1), { from: 'user' })
    return { program: words[0]!, config: readConfig(command.opts() as Flags, {}) }
  } catch {
    return undefined
  }
}
