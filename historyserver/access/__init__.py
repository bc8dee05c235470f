"""Who may read what; every route passes here."""
