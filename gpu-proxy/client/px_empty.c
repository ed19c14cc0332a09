int px_empty;
