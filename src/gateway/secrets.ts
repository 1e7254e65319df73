/** Changes the secret key of a whole data directory, while nothing else has the directory open. */
export { type KeyChange, type ResealStep, reseal } from '../storage/sqlite/reseal.ts'
