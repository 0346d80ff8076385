package keyenc

// IsBlank reports whether s is empty or shows nothing: spaces, controls, zero-width and direction marks only.
func IsBlank(s string) bool {
	for _, r := range s {
		if r > ' ' && r < 0x7F {
			return false
		}
		if r > 0x7F && !blank(r) {
			return false
		}
	}
	return true
}

// blank reports whether a rune above ASCII shows nothing. The list is part of the format of keys: it is fixed, unlike
// the tables in package unicode, so that programs built with different Go releases agree on every key.
func blank(r rune) bool {
	switch {
	case r < 0xA0: // C1 controls
		return true
	case r < 0x0500:
		return r == 0x00A0 || r == 0x00AD || r == 0x034F // no-break space, soft hyphen, combining grapheme joiner
	case r == 0x061C, r == 0x115F, r == 0x1160, r == 0x1680, r == 0x180E: // direction mark, fillers, ogham space
		return true
	case 0x2000 <= r && r <= 0x200F, // spaces, zero-width characters, direction marks
		0x2028 <= r && r <= 0x202F, // line and paragraph separators, direction overrides
		0x205F <= r && r <= 0x206F: // invisible operators, direction isolates
		return true
	case r == 0x2800, r == 0x3000, r == 0x3164, r == 0xFEFF, r == 0xFFA0: // blanks of other scripts, byte order mark
		return true
	case 0xFFF9 <= r && r <= 0xFFFB, 0xFE00 <= r && r <= 0xFE0F: // annotation marks, variation selectors
		return true
	case 0xE0000 <= r && r <= 0xE0FFF: // tags and further variation selectors
		return true
	}
	return false
}
