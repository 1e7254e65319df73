/** The one source of the version: package.json. */
import pkg from '../package.json' with { type: 'json' }

export const version: string = pkg.version
