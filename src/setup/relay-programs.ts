/**
 * Programs that speak WeChat's protocol, and where each takes its address and token (from their public pages and sources,
 * November 2026), and how svc writes that into files.
 */
import { join } from 'node:path'
import type { AddedRelay, RelayProgram } from '../model/relay.ts'
import { attempt } from '../platform/fields.ts'
import { createDurably, makePrivate } from '../platform/files.ts'
import { readSettings, unchangedError, writeSettings } from './settings-file.ts'

/** What every program needs. */
export type RelayFacts = Pick<AddedRelay, 'base_url' | 'cdn_url' | 'bot_id' | 'user_id'> & { token: string }

/** `file` begins with `~/`. */
type RelaySetting = NonNullable<AddedRelay['settings']>[number]

const asJson = (value: object): string => `${JSON.stringify(value, null, 2)}\n`
const jsonIn = (file: string, value: object): RelaySetting => ({ file, text: asJson(value) })
const asLines = (values: Readonly<Record<string, string>>, between = '='): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}${between}${value}\n`)
    .join('')

const programs: Readonly<Record<RelayProgram, (facts: RelayFacts) => RelaySetting[]>> = {
  openclaw({ base_url: baseUrl, bot_id, token, user_id: userId }) {
    const id = bot_id.toLowerCase().replace(/[^a-z0-9_-]+/g, '-')
    const folder = '~/.openclaw/openclaw-weixin'
    return [
      jsonIn(`${folder}/accounts/${id}.json`, { token, baseUrl, userId }),
      jsonIn(`${folder}/accounts.json`, [id]),
    ]
  },
  weilink: ({ base_url, bot_id, token, user_id }) => [
    jsonIn('~/.weilink/default/token.json', { bot_id, base_url, token, user_id, cursor: '' }),
  ],
  hermes: ({ base_url, bot_id, cdn_url, token }) => [
    {
      file: '~/.hermes/.env',
      text: asLines({
        WEIXIN_ACCOUNT_ID: bot_id,
        WEIXIN_TOKEN: token,
        WEIXIN_BASE_URL: base_url,
        WEIXIN_CDN_BASE_URL: cdn_url,
      }),
    },
  ],
  'cc-connect': ({ base_url, cdn_url, token }) => [
    { text: `cc-connect weixin bind --token ${token} --api-url ${base_url} --cdn-url ${cdn_url}\n` },
  ],
  // Its file data/cmd_config.json has many platforms, and is beside the program.
  astrbot: ({ base_url, bot_id, cdn_url, token }) => [
    {
      text: asJson({
        weixin_oc_token: token,
        weixin_oc_account_id: bot_id,
        weixin_oc_base_url: base_url,
        weixin_oc_cdn_base_url: cdn_url,
      }),
    },
  ],
  langbot: ({ base_url, token }) => [{ text: asLines({ token, base_url }, ': ') }],
  'wechat-acp': ({ base_url: baseUrl, bot_id: accountId, cdn_url, token, user_id: userId }) => [
    jsonIn('~/.wechat-acp/token.json', { token, baseUrl, accountId, userId }),
    { text: asLines({ 'wechat.cdnBaseUrl': cdn_url }, ': ') },
  ],
  nonebot: ({ base_url, cdn_url, token }) => [
    {
      text: asLines({
        CLAWEIXIN_TOKEN: JSON.stringify([token]),
        CLAWEIXIN_API_ROOT: base_url,
        CLAWEIXIN_CDN_ROOT: cdn_url,
      }),
    },
  ],
}

/** A person who is not known is empty: that of another account must not stay in a file. */
export const relaySettingsOf = (program: RelayProgram, facts: RelayFacts): RelaySetting[] =>
  programs[program]({ ...facts, user_id: facts.user_id ?? '' })

/** Variables of programs that name another folder for their files, the first one first. */
const folderVariables: Readonly<Record<string, readonly string[]>> = {
  '~/.openclaw': ['OPENCLAW_STATE_DIR', 'CLAWDBOT_STATE_DIR'],
  '~/.hermes': ['HERMES_HOME'],
}

/** Returns the path of a file of a program on this machine. */
export function relayFileOf(
  file: string,
  { env, home }: { env: Readonly<Record<string, string | undefined>>; home: string },
): string {
  const [, folder = '', rest = ''] = /^(~\/[^/]+)\/(.*)$/.exec(file) ?? []
  const named = (folderVariables[folder] ?? []).map(name => env[name]?.trim()).find(Boolean)
  return named === undefined ? join(home, file.slice('~/'.length)) : join(named, rest)
}

/**
 * Writes a setting into its file: entries of a list and other lines stay, other fields of an object too. A file that was
 * there is copied before.
 *
 * @returns the path, and that of the copy
 * @throws SvcError `forbidden` for a file that was left unchanged
 */
export async function writeRelaySetting(
  { path, text }: { path: string; text: string },
  now: number,
): Promise<{ path: string; copy?: string }> {
  const found = await readSettings(path)
  const after = found.text.trim() === '' ? text : merge(path, found.text, text)
  if (after === found.text) return { path }
  // The oldest copy has what was there before svc.
  let copy: string | undefined
  for (const name of found.isThere ? [`${path}.bak`, `${path}.${now}.bak`] : [])
    if (copy === undefined && (await createDurably(name, found.mark + found.text))) copy = name
  await writeSettings(found, after)
  await makePrivate(found.target)
  return { path, ...(copy !== undefined && { copy }) }
}

/** The assignments of an environment file, whose values in quotes may have several lines, and its other lines. */
const envEntries =
  /[^\S\n]*(?:export[^\S\n]+)?'?([^=#\s']+)'?[^\S\n]*=[^\S\n]*(?:'(?:\\'|[^'])*'|"(?:\\"|[^"])*")?[^\n]*\n?|[^\n]*\n?/g

/** @throws SvcError `forbidden` */
function merge(path: string, before: string, text: string): string {
  if (path.endsWith('.env')) {
    const others = [...before.matchAll(envEntries)]
      .filter(([, name]) => !`\n${text}`.includes(`\n${name}=`))
      .map(([entry]) => entry)
      .join('')
    return `${others}${others === '' || others.endsWith('\n') ? '' : '\n'}${text}`
  }
  const old: unknown = attempt(() => JSON.parse(before))
  const added: object = JSON.parse(text)
  if (typeof old !== 'object' || old === null || Array.isArray(old) !== Array.isArray(added))
    throw unchangedError(path, 'is not the JSON that its program writes')
  const all =
    Array.isArray(old) && Array.isArray(added) ? [...new Set([...old, ...added])] : { ...old, ...added }
  return JSON.stringify(all) === JSON.stringify(old) ? before : asJson(all)
}
