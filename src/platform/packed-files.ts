/**
 * The files that the program carries in its own text, by name: the base64 of their brotli form. There are none here;
 * `scripts/bundle.ts` puts a filled one in place of this module.
 */
export const packedFiles: Readonly<Record<string, string>> = {}
