/** The connections of one instance at most, unless `maxConnections` says otherwise. The guides calculate with it. */
export const defaultConnections = 4;
