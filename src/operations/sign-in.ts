/** Operations for signing in to the panel, which its door and the command line call. */
import { Type } from '@sinclair/typebox'
import { closed, integer, optional, text } from '../model/shapes.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { defineOperation } from './operation.ts'

/** Lifetime of a link. It works once. */
export const linkLifetimeMs = 15 * 60_000

/** Returns the form in which the store has the code of a link, beside those of event streams. */
export const storedLink = (code: string) => `panel ${code}`

export const createPanelLink = defineOperation({
  name: 'create_panel_link',
  title: 'Make a link that signs in to the panel',
  effect: 'write',
  right: 'keys',
  description: 'The link signs a browser in as the owner, once, within 15 minutes. The next one replaces it.',
  output: Type.Object({
    path: text('Path and query, for the address of the panel.'),
    expires_at: integer('Unix milliseconds.'),
  }),
  async run({ clock, signIns }) {
    const code = randomBytes(24).toString('base64url')
    const now = clock.now()
    const expires_at = now + linkLifetimeMs
    await signIns.addLink(storedLink(code), expires_at, now, true)
    return { path: `/sign-in?code=${code}`, expires_at }
  },
})

/** Makes an operation that only writes its audit line: the panel has already checked the browser. */
const noted = (name: string, title: string, description: string) =>
  defineOperation({
    name,
    title,
    effect: 'write',
    right: 'me',
    subject: ['by'],
    description,
    input: closed({ by: optional.oneOf(['link', 'token', 'key', 'first key']) }),
    output: Type.Object({ success: Type.Boolean() }),
    run: async () => ({ success: true }),
  })

export const signIn = noted('sign_in', 'Sign in to the panel', 'A browser got a cookie for 30 days.')
export const signOut = noted('sign_out', 'Sign out of the panel', 'The cookie of a browser is ended.')
