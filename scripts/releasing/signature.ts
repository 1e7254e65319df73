/** Signs the sums of a release with an SSH key, and checks that they are signed by a key of svc. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sumsFile } from '../build/sums.ts'
import { run } from './run.ts'

/** A signature for anything else, such as one of a commit, does not count. */
const namespace = 'svc-release'
/** The name in `signers`. */
const identity = 'svc'

const signatureFile = `${sumsFile}.sig`

/** Writes the signature of the sums in `folder` beside them. */
export async function signSums(folder: string, key: string): Promise<void> {
  await run(['ssh-keygen', '-q', '-Y', 'sign', '-f', key, '-n', namespace, sumsFile], { cwd: folder })
}

/**
 * Checks the signature of the sums in `folder`.
 *
 * @param sources whose `scripts/releasing` says who may sign
 * @throws Error when there is none, or when it is not by a key that may sign
 */
export async function checkSignature(folder: string, sources: string): Promise<void> {
  const [signature, signers, revoked] = [
    join(folder, signatureFile),
    join(sources, 'scripts/releasing/signers'),
    join(sources, 'scripts/releasing/revoked'),
  ]
  if (!existsSync(signature)) throw new Error(`${folder} has no ${signatureFile}`)
  const command = ['ssh-keygen', '-q', '-Y', 'verify', '-f', signers, '-r', revoked, '-I', identity]
  await run([...command, '-n', namespace, '-s', signature], {
    cwd: folder,
    stdin: await readFile(join(folder, sumsFile)),
  }).catch(error => {
    throw new Error(
      `the signature of ${join(folder, sumsFile)} is not by a key in ${signers}: ${error.message}`,
    )
  })
}

/** Signs something else first: a key that install.sh would not accept is found before the release is built. */
export async function tryKey(key: string, sources: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-key-'))
  try {
    await writeFile(join(folder, sumsFile), 'a trial\n')
    await signSums(folder, key)
    await checkSignature(folder, sources)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
