/** Which services svc has installed: told by the definitions that lie beside each other. */

import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { readText, statOf } from '../platform/files.ts'
import { isServiceName, type ServiceManager } from './plan.ts'

/** The names of those that svc wrote, in order; what cannot be read is none of them. */
export async function installedNames(manager: ServiceManager): Promise<string[]> {
  const folder = dirname(manager.path)
  const files = await readdir(folder).catch(() => [])
  const names = await Promise.all(
    files.map(async file => {
      const name = manager.nameOf(file)
      if (name === undefined || !isServiceName(name)) return undefined
      const text = await textOf(join(folder, file)).catch(() => undefined)
      return text !== undefined && manager.commandOf(text) ? name : undefined
    }),
  )
  return names.filter(name => name !== undefined).sort()
}

/** Of a file alone: a unit may be a link to anything. */
const textOf = async (path: string) => ((await statOf(path))?.isFile() ? readText(path) : undefined)
