/** Of every answer: nobody on the way keeps it, and no browser takes it for anything but what it says that it is. */
export const privateHeaders = { "cache-control": "no-store", "x-content-type-options": "nosniff" } as const;
