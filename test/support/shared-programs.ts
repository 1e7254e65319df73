/** Programs that outlive a test file, because the files of a worker share them: a browser, a database server. */

/** A part of the command line of each. */
export const sharedPrograms = new Set<string>()
