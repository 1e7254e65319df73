/**
 * The options of a property that is checked with so many random inputs.
 *
 * They are the same ones in each run, so that a change alone can make a test fail. `SVC_TEST_SEED=12` has others
 * checked.
 */
export const runs = (numRuns: number) => ({ numRuns, seed: Number(process.env.SVC_TEST_SEED ?? 1) })
