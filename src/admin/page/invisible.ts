/**
 * Characters that nobody sees and that change what is read: control characters, the marks that turn the direction of a text,
 * those without a width, and the separators of lines. Other parts of the package import it from here, because the page can
 * import nothing outside of its folder.
 */
export const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
