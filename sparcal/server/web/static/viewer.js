// An image with a heat map over it: zoom at the pointer, pan, pinch, native resolution.
export class Viewer {
  constructor(frame) {
    this.frame = frame;
    this.sheet = frame.querySelector(".sheet");
    this.picture = frame.querySelector(".picture");
    this.heat = frame.querySelector(".heat");
    this.size = { width: 1, height: 1 };
    this.pointers = new Map();
    this.fitted = true;
    frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0015), this.point(event));
    }, { passive: false });
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, this.point(event));
      frame.classList.add("held");
    });
    frame.addEventListener("pointermove", (event) => this.drag(event));
    for (const kind of ["pointerup", "pointercancel"]) {
      frame.addEventListener(kind, (event) => {
        this.pointers.delete(event.pointerId);
        frame.classList.toggle("held", this.pointers.size > 0);
      });
    }
    frame.addEventListener("dblclick", (event) => (this.fitted ? this.native(this.point(event)) : this.fit()));
    new ResizeObserver(() => this.fitted && this.fit()).observe(frame);
  }

  show({ picture, heat, width, height, name }) {
    this.size = { width, height };
    this.picture.src = picture;
    this.picture.alt = name;
    this.heat.src = heat;
    this.sheet.style.width = `${width}px`;
    this.sheet.style.height = `${height}px`;
    this.fit();
  }

  opacity(value) { this.heat.style.opacity = value; }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.frame;
    this.scale = Math.min(w / this.size.width, h / this.size.height);
    this.x = (w - this.size.width * this.scale) / 2;
    this.y = (h - this.size.height * this.scale) / 2;
    this.place();
    this.fitted = true;
  }

  // One image pixel on one screen pixel.
  native(centre = this.middle()) { this.zoom(1 / window.devicePixelRatio / this.scale, centre); }

  zoom(factor, centre = this.middle()) {
    const scale = Math.min(40, Math.max(0.02, this.scale * factor));
    this.x = centre.x - ((centre.x - this.x) * scale) / this.scale;
    this.y = centre.y - ((centre.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.place();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.place();
  }

  place() {
    this.sheet.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    this.frame.classList.toggle("close", this.scale > 2);
    this.frame.dataset.scale = this.scale.toFixed(3);
  }

  point(event) {
    const box = this.frame.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  middle() { return { x: this.frame.clientWidth / 2, y: this.frame.clientHeight / 2 }; }

  drag(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const after = this.point(event);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const gap = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
      this.zoom(gap(after) / gap(before), { x: (after.x + other.x) / 2, y: (after.y + other.y) / 2 });
    } else this.pan(after.x - before.x, after.y - before.y);
    this.pointers.set(event.pointerId, after);
  }
}
