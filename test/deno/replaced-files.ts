/** Replaces small files by others of the same size and time, at once after they were read; prints what is read then. */
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { createTextReader, JsonFiles } from '../../src/platform/json-file.ts'

const dir = await mkdtemp(join(tmpdir(), 'svc-replaced-'))
const path = join(dir, 'file')
const small = createTextReader(path)
const json = new JsonFiles(fields => fields)
try {
  for (const name of ['alice', 'carol', 'bobby']) {
    await writeFile(path, JSON.stringify({ name }))
    await utimes(path, 1, 1)
    const found = json.read(path)
    const parsed = found.kind === 'read' ? found.value : found
    process.stdout.write(`${small()} ${JSON.stringify(parsed)}\n`)
  }
} finally {
  await rm(dir, { recursive: true })
}
