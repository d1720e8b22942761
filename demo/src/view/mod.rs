//! The screen. On a terminal: what happened scrolls by above a view that is drawn anew ten times a second. Anywhere
//! else: plain lines, now and then one with the figures. `NO_COLOR` is respected.

pub mod frame;

use std::time::Duration;

use console::{Term, truncate_str};

use crate::board::Board;
use frame::Paint;

/// Between two lines with figures on a stream that is no terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// Where the demo speaks. What can't be written is lost: a reader that went away stops no story.
pub struct Screen {
    term: Term,
    live: bool,
    paint: Paint,
    frame: Vec<String>,
    /// Lines of the frame that stand on the terminal now.
    drawn: usize,
    plain_due: Duration,
}

impl Screen {
    /// On standard output; `plain` asks for plain lines even on a terminal.
    pub fn stdout(plain: bool) -> Self {
        let term = Term::buffered_stdout();
        let live = !plain && term.is_term() && !console::is_dumb();
        let paint = Paint::new(live && console::colors_enabled());
        let screen = Screen { term, live, paint, frame: Vec::new(), drawn: 0, plain_due: Duration::ZERO };
        if live {
            let _ = screen.term.hide_cursor();
        }
        screen
    }

    /// How to colour what is said here.
    pub fn paint(&self) -> Paint {
        self.paint
    }

    /// A line that stays.
    pub fn line(&mut self, text: &str) {
        self.clear();
        let _ = self.term.write_line(text);
        self.draw();
    }

    /// What there is to see now.
    pub fn show(&mut self, board: &Board) {
        if self.live {
            self.clear();
            self.frame = frame::live(board, self.paint);
            self.draw();
        } else if board.elapsed >= self.plain_due {
            self.plain_due = board.elapsed + PLAIN_EVERY;
            let line = frame::told(board.elapsed, ("", None), &frame::plain(board), self.paint);
            self.line(&line);
        }
    }

    /// Leaves the last view where it is: what follows comes below it.
    pub fn settle(&mut self) {
        self.frame.clear();
        self.drawn = 0;
    }

    fn clear(&mut self) {
        if self.drawn > 0 {
            let _ = self.term.clear_last_lines(self.drawn);
            self.drawn = 0;
        }
    }

    /// As much of the frame as fits: what has scrolled off can't be cleared again.
    fn draw(&mut self) {
        let (rows, columns) = self.term.size();
        let fits = usize::from(rows).saturating_sub(2);
        for line in self.frame.iter().take(fits) {
            let _ = self.term.write_line(&truncate_str(line, usize::from(columns), ""));
            self.drawn += 1;
        }
        let _ = self.term.flush();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.live {
            let _ = self.term.show_cursor();
        }
        let _ = self.term.flush();
    }
}
