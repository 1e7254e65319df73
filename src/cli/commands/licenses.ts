/** Declares `svc licenses`: prints the licence texts of everything inside svc. */
import { join } from 'node:path'
import { readBrotli, unpackBrotli } from '../../platform/packed.ts'
import type { CommandSpec } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'licenses',
    summary: 'print the licences of everything inside svc',
    about:
      'Print the licence texts of the packages and of the runtime that are inside svc, with where the sources of those under the LGPL are. A release has the same text as THIRD_PARTY_NOTICES.txt.',
    examples: [['svc licenses | less', 'page by page']],
    async run({ io }) {
      const beside = join(import.meta.dirname, '../licenses.txt.br')
      const embedded = () => import('../licenses.txt.br', { with: { type: 'file' } })
      const text = await unpackBrotli(await readBrotli('licenses.txt', beside, embedded))
      await io.out.write(Buffer.from(text).toString())
    },
  },
]
