/**
 * The files that the program carries in its own text, by name, as base64 of their brotli form. Here the list
 * is empty; `scripts/bundle.ts` replaces this module by a filled one.
 */
export const packedFiles: Readonly<Record<string, string>> = {}
