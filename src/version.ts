/** The version of svc. Its only source is package.json. */
import pkg from '../package.json' with { type: 'json' }

export const version: string = pkg.version
