/** Lets the browser paint and handle input between two steps. Steps can be slow on a phone. */
export const yieldToBrowser = (): Promise<void> => new Promise(done => setTimeout(done))
