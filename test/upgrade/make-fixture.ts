/**
 * `bun test/upgrade/make-fixture.ts NAME COMMAND…`: lets the svc that COMMAND starts live for a while in a data directory
 * of its sandbox, and keeps that as `fixtures/NAME.tar.gz`. Every later build has to open it.
 *
 * To be done once for each release, by its own binary: `bun test/upgrade/make-fixture.ts 1.2.3 dist/svc`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from '../support/ended.ts'
import { startService } from '../support/service.ts'
import { live } from './life.ts'

const [name, ...command] = process.argv.slice(2)
if (!name || command.length === 0) {
  throw new Error('expected a name and a command, as in `make-fixture.ts 1.2.3 dist/svc`')
}
const folder = await mkdtemp(join(tmpdir(), 'svc-fixture-'))
try {
  const home = join(folder, 'home')
  await using service = await startService({
    ...{ dir: join(folder, 'data'), cwd: process.cwd(), command, env: { HOME: home } },
    // The conversation is quicker than people are.
    args: ['--pace', 'off'],
  })
  const left = await live(service)
  const status = await service.kill('SIGTERM')
  if (status !== 0) throw new Error(`${command.join(' ')} ended with ${status}:\n${service.log()}`)
  await writeFile(join(folder, 'left.json'), JSON.stringify(left, null, 1))
  const path = join(import.meta.dirname, 'fixtures', `${name}.tar.gz`)
  const packed = await ended(['tar', '-czf', path, '--owner=0', '--group=0', 'data', 'left.json'], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '' },
  })
  if (packed.status !== 0) throw new Error(packed.stderr)
  console.log(path)
} finally {
  await rm(folder, { recursive: true, force: true })
}
