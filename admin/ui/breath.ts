/** The browser paints, and hears who presses, between one step and the next: on a phone each takes its time. */
export const breath = (): Promise<void> => new Promise(done => setTimeout(done))
